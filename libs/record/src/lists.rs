//! The closed lists.

use crate::closed_list::closed_list;

closed_list! {
    /// Where a run is in its life.
    "status" RunStatus {
        /// Recorded; waits for a launcher, or for its workspace or session.
        Queued = "queued",
        /// A launcher prepares workspace, prompt and bundle.
        Preparing = "preparing",
        /// The adapter runs.
        Running = "running",
        /// The adapter answered and every expectation held.
        Succeeded = "succeeded",
        /// The adapter ran, and the run did not succeed.
        Failed = "failed",
        /// Ended by a stop.
        Cancelled = "cancelled",
        /// What happened can't be known any more.
        Lost = "lost",
        /// Never ran.
        Refused = "refused",
    }
}

impl RunStatus {
    /// True for a state that is never left.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Preparing | Self::Running)
    }
}

closed_list! {
    /// Why a step did not happen.
    "refusal" Refusal {
        /// The request itself is malformed.
        InvalidRequest = "invalid-request",
        /// The configuration is not usable.
        InvalidConfig = "invalid-config",
        /// No such adapter, or one that this build can't run.
        UnknownAdapter = "unknown-adapter",
        /// The backend or adapter is not allowed in this environment.
        BackendNotAllowed = "backend-not-allowed",
        /// The installed harness is not one that the adapter works with.
        HarnessIncompatible = "harness-incompatible",
        /// The requirement is not in the list.
        UnknownRequirement = "unknown-requirement",
        /// The human input that a task answers is not recorded.
        RequestNotFound = "request-not-found",
        /// A blocking decision needs a task.
        TaskRequired = "task-required",
        /// The caller may not do this.
        NotPermitted = "not-permitted",
        /// The caller has not said who it is, or nobody of that name is known.
        Unauthenticated = "unauthenticated",
        /// The session or workspace is in use.
        SessionLive = "session-live",
        /// The session to resume is gone.
        SessionMissing = "session-missing",
        /// The workspace to resume in is gone.
        WorkspaceMissing = "workspace-missing",
        /// A missing checkout could not be made.
        CheckoutFailed = "checkout-failed",
        /// The bundle is not the one that was sealed.
        BundleChanged = "bundle-changed",
        /// The image is not on this host.
        ImageMissing = "image-missing",
        /// No release is active.
        NoActiveRelease = "no-active-release",
        /// The sandbox that was asked for can't be made here; a weaker one is never taken instead.
        SandboxUnavailable = "sandbox-unavailable",
        /// A workspace would be shared in a way that is not allowed.
        MixedWiring = "mixed-wiring",
        /// Too little free disk.
        DiskLow = "disk-low",
        /// A limit is above its hard cap.
        LimitOverCap = "limit-over-cap",
        /// Contracts and request don't fit the prompt's budget.
        PromptOverBudget = "prompt-over-budget",
        /// The writer's lease has a lower epoch than the one in force.
        StaleLease = "stale-lease",
        /// Somebody else holds what was asked for.
        Superseded = "superseded",
        /// The preparation had no live owner any more.
        Interrupted = "interrupted",
    }
}

closed_list! {
    /// Why a run that ran did not succeed.
    "reason" EndReason {
        /// The answer is not the one expected.
        ExpectMismatch = "expect-mismatch",
        /// The adapter exited with an error, by a signal, or without its turn marker.
        AdapterFailed = "adapter-failed",
        /// The harness's stream was not what it promises.
        MalformedStream = "malformed-stream",
        /// The adapter exited well and said nothing.
        NoAnswer = "no-answer",
        /// The model stopped before its answer was complete.
        AnswerCut = "answer-cut",
        /// The wall limit.
        TimedOut = "timed-out",
        /// The idle limit.
        Idle = "idle",
        /// The model produced nothing in time.
        NoActivity = "no-activity",
        /// The memory limit.
        Oom = "oom",
        /// The limit of processes.
        ProcessLimit = "process-limit",
        /// The limit of disk space.
        DiskLimit = "disk-limit",
        /// The limit of spending or tokens.
        SpendLimit = "spend-limit",
        /// The session can't be resumed.
        SessionUnusable = "session-unusable",
        /// The provider refused the credential.
        ProviderAuth = "provider-auth",
        /// The provider's rate limit.
        ProviderRateLimit = "provider-rate-limit",
        /// The provider is overloaded.
        ProviderOverloaded = "provider-overloaded",
        /// Another error of the provider.
        ProviderError = "provider-error",
        /// Named checks did not pass.
        ChecksFailed = "checks-failed",
        /// Ended by a stop.
        Cancelled = "cancelled",
        /// The runner died under the run.
        RunnerLost = "runner-lost",
        /// The harness turned out not to be one that the adapter works with.
        HarnessIncompatible = "harness-incompatible",
    }
}

closed_list! {
    /// What a record notes without ending the run.
    "note" Note {
        /// Output beyond the limit was counted and digested, not kept.
        OutputTruncated = "output-truncated",
        /// The adapter's process went on after its turn marker and was killed.
        Lingered = "lingered",
        /// Mission and task have no tool in common.
        ToolFreeByPolicy = "tool-free-by-policy",
        /// The workspace is not as the session left it.
        WorkspaceChanged = "workspace-changed",
        /// The harness is newer than the session's.
        HarnessUpdated = "harness-updated",
        /// The session could not be resumed; a new one was begun.
        FreshSession = "fresh-session",
    }
}

closed_list! {
    /// What an agent may use, in Mosaic's own names.
    "tool" Tool {
        /// Read a file.
        Read = "read",
        /// Write a file.
        Write = "write",
        /// Change a part of a file.
        Edit = "edit",
        /// Run a shell command.
        Bash = "bash",
        /// Search in files.
        Grep = "grep",
        /// Find files by name.
        Find = "find",
        /// List a directory.
        Ls = "ls",
    }
}

closed_list! {
    /// What the sandbox is made of.
    "backend" Backend {
        /// A container.
        Docker = "docker",
        /// Namespaces, made by bubblewrap.
        Bubblewrap = "bubblewrap",
        /// None: the adapter runs on the host. Development only.
        Host = "host",
    }
}

closed_list! {
    /// Whether a sandbox holds a run.
    "workspace mode" WorkspaceMode {
        /// A sandbox holds it.
        Sandbox = "sandbox",
        /// Nothing does.
        Host = "host",
    }
}

impl WorkspaceMode {
    /// The mode that goes with a backend.
    #[must_use]
    pub const fn of(backend: Backend) -> Self {
        match backend {
            Backend::Docker | Backend::Bubblewrap => Self::Sandbox,
            Backend::Host => Self::Host,
        }
    }
}

closed_list! {
    /// How careful an installation is.
    "environment" Environment {
        /// For trying things: the synthetic adapters and the backend `host` are allowed.
        Development = "development",
        /// For work.
        Production = "production",
    }
}

closed_list! {
    /// Who saw the model's first output.
    "activity source" ActivitySource {
        /// The model gateway.
        Gateway = "gateway",
        /// The adapter, by the activity file.
        Adapter = "adapter",
        /// The first byte on standard output.
        Stdout = "stdout",
    }
}

closed_list! {
    /// What enforces a limit.
    "enforcement" Enforcement {
        /// A control group, version 1.
        CgroupV1 = "cgroup-v1",
        /// A control group, version 2.
        CgroupV2 = "cgroup-v2",
        /// A resource limit of each process.
        Rlimit = "rlimit",
        /// A resource limit that every process of the uid shares, those of other runs included.
        RlimitPerUid = "rlimit-per-uid",
        /// The size of a file system in memory.
        Tmpfs = "tmpfs",
        /// The runner itself.
        Runner = "runner",
        /// The launcher, when it takes the work out.
        Launcher = "launcher",
        /// Nothing: the limit is not in force here.
        None = "none",
    }
}

closed_list! {
    /// What can be removed of a run.
    "part of a run" RunPart {
        /// What the adapter wrote: `stdout.txt` and `stderr.txt`.
        Output = "output",
        /// The `:run` workspace.
        Workspace = "workspace",
        /// Everything: the run's directory, and with the next cut of the ledger its events.
        Record = "record",
    }
}

closed_list! {
    /// What became of a checkout.
    "checkout verdict" CheckoutVerdict {
        /// There was no clone; one was made.
        Cloned = "cloned",
        /// The clone is at the root's tip, whether or not it had to be moved there.
        FastForwarded = "fast-forwarded",
        /// The clone was left exactly as it is.
        CheckoutKept = "checkout-kept",
        /// The clone was left exactly as it is, and no git ran in or on it.
        Refused = "refused",
    }
}

closed_list! {
    /// Why a clone was left as it is.
    "reason to keep a checkout" KeptReason {
        /// There is work in it that is not committed.
        Dirty = "dirty",
        /// It is on another branch.
        OtherBranch = "other-branch",
        /// It is on no branch.
        Detached = "detached",
        /// Its branch has commits that the root's has not.
        NotFastForward = "not-fast-forward",
        /// Somebody's git is at work in it, or was interrupted.
        GitBusy = "git-busy",
        /// The update would write over a file that is not tracked.
        WouldOverwrite = "would-overwrite",
        /// Something in it hides changes from git.
        HiddenChanges = "hidden-changes",
        /// Its configuration says more than a clone's does.
        ConfigChanged = "config-changed",
        /// It is no clone that this host has made.
        NotAClone = "not-a-clone",
        /// Something in it is larger than anything honest.
        TooLarge = "too-large",
        /// Something in it can't be read.
        Unreadable = "unreadable",
        /// Git failed, or nothing contains it here.
        GitFailed = "git-failed",
        /// A session is live in its workspace.
        SessionLive = "session-live",
        /// The root has no branch checked out.
        NoBranch = "no-branch",
    }
}

closed_list! {
    /// Where the harvest of a run is.
    "harvest state" HarvestState {
        /// The run is over and its work is still to be taken out.
        Pending = "pending",
        /// The work of every project is taken out.
        Done = "done",
        /// The work of at least one project could not be taken out.
        Failed = "failed",
    }
}

closed_list! {
    /// Why the work of a project could not be taken out.
    "harvest failure" HarvestFailure {
        /// The clone is not there any more.
        WorkspaceMissing = "workspace-missing",
        /// The clone's directory is none, or is not the sandbox's.
        NotAClone = "not-a-clone",
        /// The clone's directory can't be read.
        Unreadable = "unreadable",
        /// Git failed, or nothing contains it here.
        GitFailed = "git-failed",
        /// The host could not write it down.
        HostFailed = "host-failed",
    }
}

closed_list! {
    /// Why something is not in a harvest.
    "reason to leave out" LeftOutReason {
        /// It is beyond a limit of entries or bytes.
        OverLimit = "over-limit",
        /// It can't be read.
        Unreadable = "unreadable",
        /// It is a pipe, a socket or a device.
        SpecialFile = "special-file",
        /// It is a repository within the clone; its work is its own.
        NestedRepository = "nested-repository",
        /// It is an empty directory, which git does not know.
        EmptyDirectory = "empty-directory",
        /// It has a name that git takes for one of its own files.
        UnsafeName = "unsafe-name",
        /// It is a name of a commit that is not there or is damaged.
        UnreadableObject = "unreadable-object",
        /// It is staged content that is not there or is damaged.
        UnreadableStage = "unreadable-stage",
    }
}

closed_list! {
    /// What a reviewer of an agent's work should look at.
    "review flag" ReviewFlag {
        /// A file that may be executed and could not before.
        Executable = "executable",
        /// A link within the tree.
        Link = "link",
        /// A link that leads out of the tree.
        LinkLeavesTree = "link-leaves-tree",
        /// A program that git or a tool around it runs.
        Hook = "hook",
        /// What a continuous integration service runs.
        Ci = "ci",
        /// What a build or a package manager runs.
        Build = "build",
        /// What an editor or a shell runs when it opens the directory.
        Editor = "editor",
        /// Rules that change what git sees, hides or writes.
        GitRules = "git-rules",
        /// A repository within the tree.
        Submodule = "submodule",
        /// A name that is not plain text.
        OddName = "odd-name",
        /// A file that is not text.
        Binary = "binary",
    }
}

closed_list! {
    /// What is not trusted in a clone that an agent has written to.
    "distrust" Distrust {
        /// A setting that no clone of ours has: git would run or read what it names.
        Config = "config",
        /// A program that git would run.
        Hook = "hook",
        /// Rules that change what git sees or writes.
        Attributes = "attributes",
        /// Rules that hide files from git.
        IgnoreRules = "ignore-rules",
        /// Marks in the index that hide changes.
        IndexBits = "index-bits",
        /// A part of the index that git would believe.
        IndexExtension = "index-extension",
        /// An index that is none.
        MalformedIndex = "malformed-index",
        /// Objects that stand for others, or history that is cut or grafted.
        Replaced = "replaced",
        /// Objects that are borrowed from elsewhere.
        Alternates = "alternates",
        /// What git caches about commits.
        CommitGraph = "commit-graph",
        /// A link, or a file with a second name, where git writes.
        Link = "link",
        /// A pipe, a socket or a device.
        SpecialFile = "special-file",
        /// A name that is no plain ref.
        Ref = "ref",
        /// Another place that the repository points to.
        Elsewhere = "elsewhere",
        /// A lock, or an operation that was not finished.
        Unfinished = "unfinished",
        /// A repository within the clone.
        NestedRepository = "nested-repository",
        /// An object whose content is not what its id says.
        PoisonedObject = "poisoned-object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_lead_back_to_the_value() {
        for &refusal in Refusal::ALL {
            assert_eq!(Refusal::from_wire(&refusal.to_wire()), Some(refusal));
            assert_eq!(refusal.as_str().parse(), Ok(refusal));
        }
        for &reason in EndReason::ALL {
            assert_eq!(EndReason::from_wire(&reason.to_wire()), Some(reason));
            assert_eq!(reason.as_str().parse(), Ok(reason));
        }
        assert_eq!(Refusal::SandboxUnavailable.to_wire(), "SANDBOX_UNAVAILABLE");
    }

    #[test]
    fn an_unknown_value_is_refused_with_the_known_ones() {
        let error = "sudo".parse::<Tool>().expect_err("refused").to_string();
        assert_eq!(error, r#"unknown tool "sudo"; known: read write edit bash grep find ls"#);
    }

    #[test]
    fn json_uses_the_spelling_for_people() {
        let json = serde_json::to_string(&Refusal::DiskLow).expect("serializes");
        assert_eq!(json, r#""disk-low""#);
        assert_eq!(serde_json::from_str::<Refusal>(&json).expect("parses"), Refusal::DiskLow);
    }
}
