/// One line of the limits table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Key in JSON, with its unit.
    pub key: &'static str,
    /// Value when nobody says otherwise.
    pub default: u64,
    /// Lowest value that makes sense.
    pub floor: u64,
    /// Highest value that is accepted.
    pub cap: u64,
}

/// Why a limit is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; allowed is {floor} to {cap}")]
pub struct OverCap {
    /// Key in JSON.
    pub key: &'static str,
    /// The value that was asked for.
    pub value: u64,
    /// Lowest value that is accepted.
    pub floor: u64,
    /// Highest value that is accepted.
    pub cap: u64,
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Defines the limits once: the struct, its defaults, and the table that checks it.
macro_rules! limits {
    ($( $(#[$doc:meta])* $field:ident $key:literal: $floor:expr, $default:expr, $cap:expr; )+) => {
        /// The limits that a run is under, each resolved and within its cap.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct Limits { $( $(#[$doc])* pub $field: u64, )+ }

        /// The limits table: defaults and hard caps.
        pub const LIMITS: &[Limit] = &[$( Limit { key: $key, floor: $floor, default: $default, cap: $cap } ),+];

        impl Default for Limits {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl Limits {
            /// The limit with this key.
            #[must_use]
            pub fn get(&self, key: &str) -> Option<u64> {
                match key { $( $key => Some(self.$field), )+ _ => None }
            }

            /// Sets the limit with this key.
            ///
            /// # Errors
            /// When the value is outside of what the table allows, or the key is unknown (a cap of 0).
            pub fn set(&mut self, key: &str, value: u64) -> Result<(), OverCap> {
                match key {
                    $( $key => {
                        if !($floor..=$cap).contains(&value) {
                            return Err(OverCap { key: $key, value, floor: $floor, cap: $cap });
                        }
                        self.$field = value;
                        Ok(())
                    } )+
                    _ => Err(OverCap { key: "unknown limit", value, floor: 0, cap: 0 }),
                }
            }
        }
    };
}

limits! {
    /// Wall time of the adapter, in seconds.
    timeout_seconds "timeoutSeconds": 1, 120, 24 * 3600;
    /// Time to make the sandbox and start the adapter, in seconds.
    sandbox_start_seconds "sandboxStartSeconds": 1, 30, 120;
    /// Time to the model's first output where a source of it is declared, in seconds.
    no_activity_seconds "noActivitySeconds": 1, 120, 3600;
    /// Time between asking the adapter to end and killing its sandbox, in seconds.
    stop_grace_seconds "stopGraceSeconds": 1, 5, 30;
    /// Time that an adapter may go on after its turn marker, in seconds.
    linger_seconds "lingerSeconds": 1, 10, 60;
    /// Time to remove the sandbox, in seconds.
    clean_up_seconds "cleanUpSeconds": 1, 30, 120;
    /// Processors.
    cpus "cpus": 1, 2, 8;
    /// Memory, swap included, in bytes.
    memory_bytes "memoryBytes": 16 * MIB, 2 * GIB, 16 * GIB;
    /// Processes and threads.
    processes "processes": 8, 256, 1024;
    /// Open files of one process.
    open_files "openFiles": 16, 1024, 8192;
    /// Temporary files, in bytes.
    temporary_bytes "temporaryBytes": MIB, 256 * MIB, 2 * GIB;
    /// Output that is kept of each stream, in bytes.
    output_bytes "outputBytes": 4 * KIB, 64 * MIB, GIB;
    /// Files that are taken out of the clones of one project.
    harvest_entries "harvestEntries": 1, 50_000, 250_000;
    /// Their bytes.
    harvest_bytes "harvestBytes": KIB, 256 * MIB, 2 * GIB;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_settable_up_to_its_cap_and_not_beyond() {
        for limit in LIMITS {
            let mut limits = Limits::default();
            assert_eq!(limits.get(limit.key), Some(limit.default));
            limits.set(limit.key, limit.cap).expect("the cap is allowed");
            limits.set(limit.key, limit.cap + 1).expect_err("more is not");
            limits.set(limit.key, limit.floor - 1).expect_err("too little is not");
            assert_eq!(limits.get(limit.key), Some(limit.cap));
        }
    }
}
