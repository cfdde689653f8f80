//! PostgreSQL: one row an insert, by a prepared statement, each a transaction of its own that is synced.

use std::path::PathBuf;
use std::process::Command;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use crate::load::{Append, payload};
use crate::peer::{Server, find, log_to, prepare, scratch_of_peer};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS ledger \
                     (sequence BIGSERIAL PRIMARY KEY, number BIGINT NOT NULL, payload TEXT NOT NULL)";
const INSERT: &str = "INSERT INTO ledger (number, payload) VALUES ($1::text::bigint, $2)";

pub(crate) fn start() -> Result<Server, String> {
    let (Some(initdb), Some(postgres)) = (program("initdb"), program("postgres")) else {
        return Err("PostgreSQL: no `initdb` and `postgres`; on Debian: apt-get install postgresql".to_owned());
    };
    let scratch = scratch_of_peer();
    let data = scratch.path().join("data");
    let mut make = Command::new(initdb);
    make.args(["--username=bench", "--auth=trust", "--encoding=UTF8", "--locale=C", "-D"]).arg(&data);
    prepare(make.current_dir(scratch.path())).map_err(|why| format!("PostgreSQL: {why}"))?;
    let mut command = Command::new(postgres);
    command.arg("-D").arg(&data).arg("-k").arg(scratch.path());
    // Both are the defaults; they are what is compared.
    command.args(["-c", "listen_addresses=", "-c", "fsync=on", "-c", "synchronous_commit=on"]);
    log_to(scratch.path(), &mut command);
    let server = Server::start(scratch, command, String::new())?.wait(|scratch| {
        let socket = scratch.join(".s.PGSQL.5432");
        let log = std::fs::read_to_string(scratch.join("log")).ok()?;
        let ready = log.contains("ready to accept connections");
        ready.then(|| socket.to_string_lossy().into_owned())
    });
    let server = server.map_err(|why| format!("PostgreSQL: {why}"))?;
    Ok(server)
}

/// A program of the newest PostgreSQL that is there.
fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(Result::ok);
    let mut versions: Vec<PathBuf> = versions.map(|version| version.path().join("bin").join(name)).collect();
    versions.sort();
    versions.into_iter().rev().find(|at| at.is_file()).or_else(|| find(&[name.into()]))
}

/// Speaks as much of the protocol, version 3, as an insert takes.
pub(crate) struct Client {
    stream: UnixStream,
}

impl Client {
    pub(crate) async fn new(server: &Server) -> Self {
        let mut stream = UnixStream::connect(&server.address).await.expect("connected");
        let mut hello = 196_608_i32.to_be_bytes().to_vec();
        hello.extend_from_slice(b"user\0bench\0database\0postgres\0\0");
        let length = i32::try_from(hello.len() + 4).expect("short");
        stream.write_all(&[&length.to_be_bytes()[..], &hello].concat()).await.expect("sent");
        let mut client = Self { stream };
        client.until_ready().await;
        let query = message(b'Q', &[TABLE.as_bytes(), b"\0"].concat());
        client.ask(&query).await;
        let parse = message(b'P', &[b"insert\0", INSERT.as_bytes(), b"\0\0\0"].concat());
        client.ask(&[parse, message(b'S', b"")].concat()).await;
        client
    }

    async fn ask(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.expect("sent");
        self.until_ready().await;
    }

    async fn until_ready(&mut self) {
        loop {
            let kind = self.stream.read_u8().await.expect("an answer");
            let length = self.stream.read_i32().await.expect("a length") - 4;
            let mut body = vec![0; usize::try_from(length).expect("a length")];
            self.stream.read_exact(&mut body).await.expect("an answer");
            assert_ne!(kind, b'E', "{}", String::from_utf8_lossy(&body));
            if kind == b'Z' {
                return;
            }
        }
    }
}

impl Append for Client {
    async fn append(&mut self, number: u64) {
        let (number, payload) = (number.to_string(), payload(number));
        // Portal, statement, no formats, two values, no formats of results.
        let mut bind = b"\0insert\0\0\0\0\x02".to_vec();
        for value in [number, payload] {
            bind.extend_from_slice(&i32::try_from(value.len()).expect("short").to_be_bytes());
            bind.extend_from_slice(value.as_bytes());
        }
        bind.extend_from_slice(b"\0\0");
        let execute = message(b'E', b"\0\0\0\0\0");
        self.ask(&[message(b'B', &bind), execute, message(b'S', b"")].concat()).await;
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len() + 4).expect("short");
    [&[kind][..], &length.to_be_bytes(), body].concat()
}
