//! System of record: the ledger, runs and leases
