use std::sync::Arc;
use std::time::{Duration, Instant};

use mosaic_adapters::Metadata;
use mosaic_bundle::Launch;
use mosaic_ids::Digest;
use mosaic_record::{Activity, Output, RunEvent};
use mosaic_shim::protocol::{AdapterSignal, Order, Said, Word};

use super::{App, AppError, Execution, State};
use crate::capture::Capture;
use crate::domain::standstill::{Looks, STANDSTILL};
use crate::domain::turn::{Act, Happening, Turn};
use crate::sandbox::{Control, Sandbox};

/// How often the control groups are asked whether a fork was refused.
const GROUP_INTERVAL: Duration = Duration::from_millis(250);

/// Words that are heard after the shim is gone: it says four at most.
const LAST_WORDS: usize = 16;
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(200);

/// Time to the first report of how much was written; each later one takes twice as long, up to a bound.
const FIRST_OUTPUT_INTERVAL: Duration = Duration::from_secs(1);
const LONGEST_OUTPUT_INTERVAL: Duration = Duration::from_secs(60);

/// An execution whose adapter runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) sandbox: Sandbox,
    pub(super) control: Control,
    pub(super) stdout: Capture,
    pub(super) stderr: Capture,
    pub(super) turn: Turn,
    pub(super) launch: Launch,
    pub(super) metadata: Metadata,
    pub(super) started: Instant,
    pub(super) looks: Looks,
    /// When the adapter ended, where that was while this process stood still.
    pub(super) unseen_end: Option<Duration>,
}

/// What the driver has heard.
enum Heard {
    /// By itself, now.
    Happening(Happening),
    /// From the shim.
    Said(Said),
}

impl App {
    /// The life of one execution, from its reservation to its proven end.
    pub(super) async fn live(self, execution: Arc<Execution>, digest: Digest) {
        match self.prepare(&execution, &digest).await {
            Ok(running) => {
                self.spawn_reporter(Arc::clone(&execution));
                let running = self.drive(&execution, running).await;
                self.finish(&execution, running).await;
            }
            Err(error) => self.not_started(&execution, error),
        }
    }

    fn not_started(&self, execution: &Arc<Execution>, error: AppError) {
        tracing::info!(run.id = %execution.run, %error, "Did not start a run");
        execution.update(|status| status.state = State::NotStarted(error));
        self.registry.forget(execution);
    }

    /// Until the sandbox's process has ended.
    async fn drive(&self, execution: &Execution, mut running: Running) -> Running {
        let mut first_byte = Box::pin(first_byte(running.stdout.reader()));
        let mut wants_first_byte = true;
        let mut hears = true;
        let mut stop_heard = false;
        let mut groups = tokio::time::interval(GROUP_INTERVAL);
        groups.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut report = OutputReport::new();
        loop {
            let deadline = running.turn.deadline().map(|deadline| running.started + deadline);
            // In this order: what the shim says is the agent's word, and however much it says must not keep us from the rest.
            let heard = tokio::select! {
                biased;
                () = execution.revoked().cancelled() => {
                    running.kill().await;
                    running.sandbox.ended().await;
                    return running;
                }
                () = execution.stop_asked().cancelled(), if !stop_heard => {
                    stop_heard = true;
                    Heard::Happening(Happening::StopAsked)
                }
                () = until(deadline) => Heard::Happening(Happening::Time),
                () = running.sandbox.ended() => {
                    running.looks.look(running.started.elapsed());
                    self.hear_the_rest(execution, &mut running).await;
                    return running;
                }
                said = running.control.hear(), if hears => {
                    hears = said.is_some();
                    said.map_or(Heard::Happening(Happening::Silence), Heard::Said)
                }
                is_there = &mut first_byte, if wants_first_byte => {
                    wants_first_byte = false;
                    Heard::Happening(if is_there { Happening::FirstByte } else { Happening::Time })
                }
                _ = groups.tick() => {
                    let refused = running.sandbox.usage().refused_forks > 0;
                    Heard::Happening(if refused { Happening::ProcessLimit } else { Happening::Time })
                }
                () = until(Some(report.due)) => {
                    report.next(execution, &running, self.parts.clock.now());
                    Heard::Happening(Happening::Time)
                }
            };
            let stood_still = running.looks.look(running.started.elapsed());
            if let Heard::Said(said) = &heard {
                self.take_word(execution, &mut running, said).await;
            }
            if stood_still {
                // What waits was said meanwhile, and before whatever is due now.
                self.hear_the_rest(execution, &mut running).await;
            }
            if let Heard::Happening(happening) = heard {
                let now = running.started.elapsed();
                self.take(execution, &mut running, happening, now).await;
            }
        }
    }

    /// What the shim has said by now, a few words at most.
    async fn hear_the_rest(&self, execution: &Execution, running: &mut Running) {
        for _ in 0..LAST_WORDS {
            let said = tokio::time::timeout(LAST_WORDS_LIMIT, running.control.hear()).await;
            let Ok(Some(said)) = said else { return };
            self.take_word(execution, running, &said).await;
        }
    }

    async fn take_word(&self, execution: &Execution, running: &mut Running, said: &Said) {
        let (happening, now) = (happening(&said.word), running.started.elapsed());
        let when = running.looks.when(Duration::from_millis(said.after_ms));
        if matches!(happening, Happening::Exited(_)) && now.saturating_sub(when) >= STANDSTILL {
            running.unseen_end = Some(when);
        }
        self.take(execution, running, happening, when).await;
    }

    async fn take(&self, execution: &Execution, running: &mut Running, happening: Happening, when: Duration) {
        let acts = running.turn.take(happening, when);
        for act in acts {
            self.act(execution, running, act).await;
        }
    }

    async fn act(&self, execution: &Execution, running: &mut Running, act: Act) {
        let now = self.parts.clock.now();
        match act {
            Act::ReportActivity { latency, source } => {
                let latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
                execution.report(now, RunEvent::Activity(Activity { at: now, latency_ms, source }));
            }
            Act::ReportTurnDone => {
                execution.update(|status| status.state = State::Ending);
                execution.report(now, RunEvent::TurnDone {});
            }
            Act::ReportEnding(reason) => {
                execution.update(|status| status.state = State::Ending);
                execution.report(now, RunEvent::Ending { reason });
            }
            Act::Terminate => running.control.tell(&Order::Signal { signal: AdapterSignal::Term }).await,
            Act::Kill => running.kill().await,
        }
    }
}

impl Running {
    /// Kills the sandbox. Where there is no namespace, the shim is asked first: it knows every descendant.
    async fn kill(&mut self) {
        if self.launch.backend == mosaic_record::Backend::Host {
            self.control.tell(&Order::Kill).await;
            let limit = Duration::from_secs(1);
            if tokio::time::timeout(limit, self.sandbox.ended()).await.is_ok() {
                return;
            }
        }
        self.sandbox.kill();
    }

    /// How much was written so far.
    fn written(&self) -> Output {
        let (stdout, stderr) = (self.stdout.reader().progress().total, self.stderr.reader().progress().total);
        Output { stdout_bytes: stdout, stderr_bytes: stderr, ..Output::default() }
    }
}

fn happening(word: &Word) -> Happening {
    match word {
        Word::Activity => Happening::Activity,
        Word::TurnDone => Happening::TurnDone,
        Word::Exited { exit } => Happening::Exited(*exit),
        // Nothing else is said after the start by a shim that is ours.
        Word::Ready | Word::Starting | Word::Started { .. } | Word::Failed { .. } => Happening::Silence,
    }
}

/// Returns when the first byte is there, or with false when there will be none.
async fn first_byte(mut stdout: crate::capture::Reader) -> bool {
    stdout.more_than(0).await.total > 0
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// When to report how much was written.
struct OutputReport {
    due: Instant,
    interval: Duration,
    last: Output,
}

impl OutputReport {
    fn new() -> Self {
        let interval = FIRST_OUTPUT_INTERVAL;
        Self { due: Instant::now() + interval, interval, last: Output::default() }
    }

    fn next(&mut self, execution: &Execution, running: &Running, now: jiff::Timestamp) {
        let written = running.written();
        if written != self.last {
            execution.report(now, RunEvent::Output(written.clone()));
            self.last = written;
        }
        self.interval = (self.interval * 2).min(LONGEST_OUTPUT_INTERVAL);
        self.due = Instant::now() + self.interval;
    }
}
