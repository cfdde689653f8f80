//! Who may call what.

use mosaic_rpc::{Allow, Rule};

/// Launching and stopping are the human's own.
pub const RULES: &[Rule] = &[
    Rule { method: "/mosaic.launcher.v1.LaunchService/Launch", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/Retry", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/Validate", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/Stop", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/Prune", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/Integrate", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/GetHarvest", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/RepairRuns", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/HandOver", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/GetStatus", allow: &[Allow::Operator] },
    Rule { method: "/mosaic.launcher.v1.LaunchService/AwaitRun", allow: &[Allow::Operator] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_has_an_answer_to_who_may_call_it() {
        let missing = mosaic_rpc::rules_without_rpc_and_rpcs_without_rule(mosaic_proto::launcher::DESCRIPTORS, RULES);
        assert_eq!(missing, Vec::<String>::new());
    }
}
