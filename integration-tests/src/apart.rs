use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use mosaic_data_root::{DataRoot, ProcessLock, Service};
use nix::unistd::Pid;

use crate::{Installation, Operator, Process, wait_for};

/// How long a service may take to start.
const STARTS: Duration = Duration::from_secs(60);

/// The three services of one installation, each a process of its own.
#[derive(Debug)]
pub struct Apart {
    /// The installation; its `mosaic` attaches to these services.
    pub mosaic: Installation,
    arguments: Vec<(Service, Vec<String>)>,
    services: Vec<(Service, Process)>,
}

impl Apart {
    /// Starts all services, each after those that it needs.
    ///
    /// # Panics
    /// When one does not start.
    #[must_use]
    pub fn start(mosaic: Installation) -> Self {
        Self::with(mosaic, &[])
    }

    /// Starts all services; those that `arguments` names with these beside the usual ones.
    ///
    /// # Panics
    /// When one does not start.
    #[must_use]
    pub fn with(mosaic: Installation, arguments: &[(Service, &[&str])]) -> Self {
        let own = |list: &[&str]| list.iter().map(|&argument| argument.to_owned()).collect();
        let arguments = arguments.iter().map(|(service, list)| (*service, own(list))).collect();
        let mut apart = Self { mosaic, arguments, services: Vec::new() };
        for service in Service::ALL {
            apart.begin(service);
            apart.until_it_serves(service);
        }
        apart
    }

    /// Starts a service that does not run, and does not wait for it.
    ///
    /// # Panics
    /// When its process can't be started.
    pub fn begin(&mut self, service: Service) {
        self.services.retain(|(known, _)| *known != service);
        let log = File::options().create(true).append(true).open(self.log(service)).expect("a log");
        let mut command: Command = self.mosaic.command(&["service", service.name()]);
        match service {
            Service::Broker => command.arg("--data-root").arg(self.mosaic.data()),
            Service::Runner | Service::Launcher => command.arg("--config").arg(self.mosaic.path().join("config.json")),
        };
        for (_, arguments) in self.arguments.iter().filter(|(known, _)| *known == service) {
            command.args(arguments);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        self.services.push((service, Process::start(&mut command)));
    }

    /// Starts a service that does not run, and waits until it serves.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn restart(&mut self, service: Service) {
        self.begin(service);
        self.until_it_serves(service);
    }

    /// Waits until a service that was begun serves.
    ///
    /// # Panics
    /// When it ends instead, or takes too long.
    #[track_caller]
    pub fn until_it_serves(&mut self, service: Service) {
        let (log, socket) = (self.log(service), self.mosaic.data().join(format!("run/{service}.sock")));
        let process = self.process(service);
        wait_for(&format!("the {service}"), STARTS, || {
            let ended = process.ended();
            assert!(ended.is_none(), "{service}: {ended:?}: {}", std::fs::read_to_string(&log).unwrap_or_default());
            std::os::unix::net::UnixStream::connect(&socket).ok()
        });
    }

    /// A service's process.
    ///
    /// # Panics
    /// When it was never started.
    pub fn process(&mut self, service: Service) -> &mut Process {
        let found = self.services.iter_mut().find(|(known, _)| *known == service);
        &mut found.expect("it was started").1
    }

    /// Processes that serve.
    pub fn live(&mut self) -> Vec<Pid> {
        self.services.iter_mut().filter_map(|(_, process)| process.ended().is_none().then(|| process.pid())).collect()
    }

    /// A person with a gRPC client.
    #[must_use]
    pub fn operator(&self) -> Operator {
        Operator::of(&self.mosaic.data())
    }

    /// Asks every service to end, those first that need others, and waits until they have.
    ///
    /// # Panics
    /// When one does not end.
    #[track_caller]
    pub fn end(&mut self) {
        for service in Service::ALL.into_iter().rev() {
            self.process(service).end();
        }
    }

    /// What a service has written to its log.
    #[must_use]
    pub fn said(&self, service: Service) -> String {
        std::fs::read_to_string(self.log(service)).unwrap_or_default()
    }

    /// True when a process holds the lock of a service.
    #[must_use]
    pub fn is_held(&self, service: Service) -> bool {
        DataRoot::open(&self.mosaic.data()).is_ok_and(|root| ProcessLock::holder(&root.lock(service)).is_some())
    }

    fn log(&self, service: Service) -> std::path::PathBuf {
        self.mosaic.path().join(format!("{service}.log"))
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // Those first that need others, as in `end`.
        for service in Service::ALL.into_iter().rev() {
            self.services.retain(|(known, _)| *known != service);
        }
    }
}
