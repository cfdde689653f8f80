use mosaic_data_root::Service::{Broker, Launcher, Runner};
use mosaic_rpc::{Allow, Rule};

const ALL: &[Allow] = &[Allow::Operator, Allow::Service(Broker), Allow::Service(Launcher), Allow::Service(Runner)];
const LAUNCHER: &[Allow] = &[Allow::Service(Launcher)];
const OPERATOR: &[Allow] = &[Allow::Operator];
const OPERATOR_AND_LAUNCHER: &[Allow] = &[Allow::Operator, Allow::Service(Launcher)];
const RUNNER: &[Allow] = &[Allow::Service(Runner)];

/// Who may call what: one line an rpc.
pub(crate) const RULES: &[Rule] = &[
    Rule { method: "/mosaic.broker.v1.RunService/CreateRun", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/GetRun", allow: ALL },
    Rule { method: "/mosaic.broker.v1.RunService/ListRuns", allow: ALL },
    Rule { method: "/mosaic.broker.v1.RunService/WatchRun", allow: ALL },
    Rule { method: "/mosaic.broker.v1.RunService/ClaimRun", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/RenewLease", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/ReleaseLease", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/PrepareRun", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/RecordStep", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/RefuseRun", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/CancelRun", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/ConfirmCancel", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/LoseRun", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/RecordHarvest", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/RecordIntegration", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RunService/ReportRun", allow: RUNNER },
    Rule { method: "/mosaic.broker.v1.RunService/ReportRuns", allow: RUNNER },
    Rule { method: "/mosaic.broker.v1.LedgerService/WatchEvents", allow: ALL },
    Rule { method: "/mosaic.broker.v1.LedgerService/VerifyLedger", allow: ALL },
    Rule { method: "/mosaic.broker.v1.RetentionService/KeepRun", allow: OPERATOR },
    Rule { method: "/mosaic.broker.v1.RetentionService/PruneRun", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RetentionService/PruneSession", allow: LAUNCHER },
    Rule { method: "/mosaic.broker.v1.RetentionService/CutLedger", allow: OPERATOR_AND_LAUNCHER },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_has_a_rule_and_every_rule_an_rpc() {
        let strays = mosaic_rpc::rules_without_rpc_and_rpcs_without_rule(mosaic_proto::broker::DESCRIPTORS, RULES);
        assert_eq!(strays, Vec::<String>::new());
    }
}
