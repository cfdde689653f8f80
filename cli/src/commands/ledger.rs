use mosaic_ids::Digest;
use mosaic_proto::broker::v1 as broker;
use mosaic_proto::launcher::v1 as launcher;

use super::print_line;
use crate::args::{Ledger, LedgerVerify};
use crate::client::Client;
use crate::exit::{Exit, Failure, Outcome};
use crate::host::attach::attach_any;
use crate::settings::Settings;
use crate::view::text::harmless;

pub(crate) async fn run(command: &Ledger, settings: &Settings) -> Outcome {
    match command {
        Ledger::Verify(arguments) => verify(arguments, settings).await,
    }
}

async fn verify(arguments: &LedgerVerify, settings: &Settings) -> Outcome {
    let mut client = attach_any(settings).await?;
    let result = client.ledger.verify_ledger(broker::VerifyLedgerRequest {}).await?.into_inner();
    // A ledger that is not intact is no source of anything.
    let repaired = if arguments.repair && result.intact { Some(repair(&mut client).await?) } else { None };
    let head = Digest::from_hash(&result.head_hash);
    if arguments.json {
        let fault = |fault: &broker::LedgerFault| serde_json::json!({ "sequence": fault.sequence, "runId": fault.run_id, "message": fault.message });
        let line = serde_json::json!({
            "intact": result.intact, "events": result.events, "runs": result.runs, "headHash": head.as_str(),
            "faults": result.faults.iter().map(fault).collect::<Vec<_>>(),
            "repaired": repaired.as_ref().map(|repaired| &repaired.repaired_run_ids),
        });
        print_line(&line.to_string());
    } else if result.intact {
        print_line(&format!("the ledger is intact: {} events, {} runs, head {head}", result.events, result.runs));
        if let Some(repaired) = &repaired {
            let (written, checked) = (repaired.repaired_run_ids.len(), repaired.checked);
            print_line(&format!("wrote the missing files of {written} of {checked} ended runs"));
        }
    } else {
        print_line(&format!("the ledger is NOT intact: {} events, {} runs", result.events, result.runs));
        for fault in &result.faults {
            print_line(&format!("  event {} run {}: {}", fault.sequence, fault.run_id, harmless(&fault.message)));
        }
    }
    Ok(if result.intact { Exit::Done } else { Exit::NotSucceeded })
}

/// Writes missing files of runs; what it did, for the one JSON object or the lines of the result.
async fn repair(client: &mut Client) -> Result<launcher::RepairRunsResponse, Failure> {
    Ok(client.launches.repair_runs(launcher::RepairRunsRequest {}).await?.into_inner())
}
