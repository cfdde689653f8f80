use mosaic_data_root::Service;
use mosaic_rpc::{Allow, Rule};

/// Who may call what. A method without a line is refused to everybody.
pub(crate) const RULES: &[Rule] = &[
    Rule { method: "/mosaic.runner.v1.RunnerService/StartRun", allow: LAUNCHER },
    Rule { method: "/mosaic.runner.v1.RunnerService/StopRun", allow: OPERATOR_AND_LAUNCHER },
    Rule { method: "/mosaic.runner.v1.RunnerService/GetExecution", allow: OPERATOR_AND_LAUNCHER },
    Rule { method: "/mosaic.runner.v1.RunnerService/TailOutput", allow: OPERATOR_AND_LAUNCHER },
];

const LAUNCHER: &[Allow] = &[Allow::Service(Service::Launcher)];
const OPERATOR_AND_LAUNCHER: &[Allow] = &[Allow::Operator, Allow::Service(Service::Launcher)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_has_a_deliberate_answer_to_who_may_call_it() {
        let descriptors = mosaic_proto::runner::DESCRIPTORS;
        let missing = mosaic_rpc::rules_without_rpc_and_rpcs_without_rule(descriptors, RULES);
        assert!(missing.is_empty(), "{missing:?}");
    }
}
