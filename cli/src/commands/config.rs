use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use mosaic_config::{Config as Resolved, ConfigFile, LimitsPatch};
use mosaic_record::{Backend, Environment, Limits};

use super::print_line;
use crate::args::{Config, ConfigInit, ConfigShow};
use crate::exit::{Exit, Failure, Outcome};
use crate::settings::{Settings, init_target, user_data_root};

pub(crate) fn run(command: Config, flag: Option<&Path>) -> Outcome {
    match command {
        Config::Init(arguments) => init(arguments, flag),
        Config::Show(arguments) => show(&arguments, &Settings::load(flag)?),
        Config::Check(_) => check(&Settings::load(flag)?),
    }
}

/// A configuration for this machine.
///
/// # Errors
/// When the data root is not usable.
pub(crate) fn sensible(data_root: &Path, backend: Backend) -> Result<ConfigFile, Failure> {
    let file = serde_json::json!({
        "configVersion": 1,
        "environment": "development",
        "dataRoot": data_root,
        "execution": { "backend": backend, "provider": "anthropic", "model": "claude-sonnet-5", "adapter": "scripted" },
    });
    serde_json::from_value(file).map_err(|error| Failure::usage(format!("`{}`: {error}", data_root.display())))
}

fn init(arguments: ConfigInit, flag: Option<&Path>) -> Outcome {
    let path = init_target(flag)?;
    let data_root = match arguments.data_root {
        Some(directory) => std::path::absolute(&directory)
            .map_err(|error| Failure::usage(format!("`{}`: {error}", directory.display())))?,
        None => user_data_root()?,
    };
    if path.exists() && !arguments.force {
        let failure = Failure::usage(format!("`{}` is there already", path.display()));
        return Err(failure.hint("`--force` replaces it; `--config FILE` writes another one"));
    }
    let bubblewrap = mosaic_runner::probe::host().bubblewrap;
    mosaic_data_root::check_path(&data_root).map_err(|error| Failure::rejected(error.to_string()))?;
    let mut file = sensible(&data_root, Backend::Bubblewrap)?;
    file.limits = limits_of_this_machine()?;
    Resolved::resolve(&path.display().to_string(), file.clone())
        .map_err(|error| Failure::rejected(error.to_string()))?;
    write(&path, &file)?;
    print_line(&format!("wrote {}", path.display()));
    print_line(&format!("data goes to {}", data_root.display()));
    print_line("the adapter is `scripted`, for a first try: a task's prompt is a shell script");
    if let Err(missing) = bubblewrap {
        crate::say!("warning: sandboxes can't be made yet: {missing}");
        crate::say!("hint: `mosaic doctor` says more");
    }
    Ok(Exit::Done)
}

/// Limits for a machine that has less than the defaults take for granted; `None` for any other.
fn limits_of_this_machine() -> Result<Option<LimitsPatch>, Failure> {
    let defaults = Limits::default();
    let mut smaller = serde_json::Map::new();
    let cpus = std::thread::available_parallelism().map_or(defaults.cpus, |cpus| cpus.get() as u64);
    if cpus < defaults.cpus {
        smaller.insert("cpus".to_owned(), cpus.into());
    }
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    // One run may have half of the machine's memory.
    if let Some(half) = total_memory(&meminfo).map(|bytes| bytes / 2).filter(|half| *half < defaults.memory_bytes) {
        smaller.insert("memoryBytes".to_owned(), half.into());
    }
    if smaller.is_empty() {
        return Ok(None);
    }
    let patch = serde_json::from_value(smaller.into());
    patch.map(Some).map_err(|error| Failure::usage(format!("this machine is too small: {error}")))
}

/// Bytes of memory that `/proc/meminfo` says the machine has.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Writes a configuration, whole or not at all.
///
/// # Errors
/// When it can't be written.
pub(crate) fn write(path: &Path, file: &ConfigFile) -> Result<(), Failure> {
    let temporary = path.with_extension("tmp");
    let write = || -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut options = std::fs::OpenOptions::new();
        let mut output = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        output.write_all(&serde_json::to_vec_pretty(file)?)?;
        output.write_all(b"\n")?;
        std::fs::rename(&temporary, path)
    };
    write().map_err(|error| Failure::usage(format!("can't write `{}`: {error}", path.display())))
}

fn show(arguments: &ConfigShow, settings: &Settings) -> Outcome {
    let file = settings.config.file();
    if arguments.json {
        let line = serde_json::json!({
            "path": settings.path, "source": settings.source.as_str(), "digest": settings.config.digest(), "config": file,
        });
        print_line(&line.to_string());
    } else {
        crate::say!("{} ({})", settings.path.display(), settings.source.as_str());
        print_line(&serde_json::to_string_pretty(file).expect("a configuration serializes"));
    }
    Ok(Exit::Done)
}

fn check(settings: &Settings) -> Outcome {
    let config = &settings.config;
    let wrong =
        |key: &str, problem: &str| Err(Failure::rejected(format!("{}: {key}: {problem}", settings.path.display())));
    if let Err(error) = mosaic_data_root::check_path(&config.data_root) {
        return wrong("dataRoot", &error.to_string());
    }
    let production = config.environment == Environment::Production;
    if production && config.execution.backend == Backend::Host {
        return wrong("execution.backend", "`host` contains nothing and is refused in production; write `bubblewrap`");
    }
    if config.execution.backend == Backend::Docker {
        return wrong("execution.backend", "this build makes no docker sandboxes; write `bubblewrap`");
    }
    if production && mosaic_adapters::is_synthetic(&config.execution.adapter) {
        return wrong("execution.adapter", "it is for tests and demonstrations and is refused in production");
    }
    let mut directories = vec![config.data_root.join("adapters")];
    directories.extend(config.adapter_dirs.iter().cloned());
    mosaic_adapters::find(&config.execution.adapter, &directories).map_err(|error| {
        let text = error.to_string();
        let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, "choose another adapter"));
        Failure::rejected(format!("{}: execution.adapter: {message}", settings.path.display())).hint(hint)
    })?;
    print_line(&format!("{} is valid", settings.path.display()));
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(total_memory("MemTotal:        1024 kB\nMemFree: 1 kB\n"), Some(1024 * 1024));
        assert_eq!(total_memory(""), None);
    }
}
