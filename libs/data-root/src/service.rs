/// One of Mosaic's services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Service {
    /// System of record.
    Broker,
    /// Decides what may run, and prepares it.
    Launcher,
    /// Runs it.
    Runner,
}

impl Service {
    /// Every service, in the order in which they start: each needs only those before it.
    pub const ALL: [Self; 3] = [Self::Broker, Self::Runner, Self::Launcher];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Launcher => "launcher",
            Self::Runner => "runner",
        }
    }
}

impl std::fmt::Display for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
