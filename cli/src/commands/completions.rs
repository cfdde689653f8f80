use clap::CommandFactory as _;

use crate::args::{Arguments, Completions, Shell};
use crate::exit::{Exit, Outcome};

pub(crate) fn run(arguments: &Completions) -> Outcome {
    let shell = match arguments.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Elvish => clap_complete::Shell::Elvish,
        Shell::Fish => clap_complete::Shell::Fish,
        Shell::Powershell => clap_complete::Shell::PowerShell,
        Shell::Zsh => clap_complete::Shell::Zsh,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "mosaic", &mut script);
    crate::tell!("{}", String::from_utf8_lossy(&script).trim_end());
    Ok(Exit::Done)
}
