//! Redis Streams: an append-only file that is synced before each answer.

use std::process::Command;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::load::{Append, payload};
use crate::peer::{Server, find, log_to, scratch_of_peer};

pub(crate) fn start() -> Result<Server, String> {
    let Some(program) = find(&["redis-server".into()]) else {
        return Err("Redis Streams: no `redis-server`; on Debian: apt-get install redis-server".to_owned());
    };
    let scratch = scratch_of_peer();
    let mut command = Command::new(program);
    command.args(["--port", "0", "--unixsocket", "socket", "--daemonize", "no", "--save", ""]);
    command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    log_to(scratch.path(), &mut command);
    let server = Server::start(scratch, command, String::new())?.wait(|scratch| {
        let socket = scratch.join("socket");
        std::os::unix::net::UnixStream::connect(&socket).ok()?;
        Some(socket.to_string_lossy().into_owned())
    });
    server.map_err(|why| format!("Redis Streams: {why}"))
}

pub(crate) struct Client {
    stream: BufReader<UnixStream>,
    line: String,
}

impl Client {
    pub(crate) async fn new(server: &Server) -> Self {
        let stream = UnixStream::connect(&server.address).await.expect("connected");
        Self { stream: BufReader::new(stream), line: String::new() }
    }

    async fn line(&mut self) -> &str {
        self.line.clear();
        self.stream.read_line(&mut self.line).await.expect("an answer");
        &self.line
    }
}

impl Append for Client {
    async fn append(&mut self, number: u64) {
        let (number, payload) = (number.to_string(), payload(number));
        let words = ["XADD", "ledger", "*", "number", number.as_str(), "payload", payload.as_str()];
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.write_all(request.as_bytes()).await.expect("sent");
        // The id of the entry: its length, then itself.
        let length = self.line().await;
        assert!(length.starts_with('$'), "{length}");
        self.line().await;
    }
}
