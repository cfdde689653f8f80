use mosaic_ids::Name;

/// An adapter that is a part of the program.
pub(crate) struct Builtin {
    pub(crate) name: &'static str,
    pub(crate) script: &'static str,
    pub(crate) metadata: &'static str,
    /// For tests, demonstrations and benchmarks only.
    synthetic: bool,
}

pub(crate) const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "mock",
        script: include_str!("../builtin/mock/adapter.sh"),
        metadata: include_str!("../builtin/mock/adapter.json"),
        synthetic: true,
    },
    Builtin {
        name: "scripted",
        script: include_str!("../builtin/scripted/adapter.sh"),
        metadata: include_str!("../builtin/scripted/adapter.json"),
        synthetic: true,
    },
];

/// Names that are kept: for adapters that this build does not have yet, and for what is no adapter that one can launch.
pub(crate) const RESERVED: &[&str] = &["pi", "claude", "codex", "opencode", CHECK];
/// What a named check is called where an adapter's name is expected.
pub const CHECK: &str = "check";

/// True for an adapter that comes with Mosaic, and for the names that are kept for one.
#[must_use]
pub fn is_builtin(name: &Name) -> bool {
    BUILTIN.iter().any(|builtin| builtin.name == name.as_str()) || RESERVED.contains(&name.as_str())
}

/// True for the adapters that are for tests, demonstrations and benchmarks: refused in production.
#[must_use]
pub fn is_synthetic(name: &Name) -> bool {
    BUILTIN.iter().any(|builtin| builtin.synthetic && builtin.name == name.as_str())
}

#[cfg(test)]
mod tests {
    use crate::Metadata;

    #[test]
    fn the_metadata_of_every_builtin_adapter_is_valid() {
        for builtin in super::BUILTIN {
            Metadata::parse(builtin.name, builtin.metadata).expect(builtin.name);
        }
    }
}
