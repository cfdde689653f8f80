use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mosaic_ids::Digest;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use rand::RngExt as _;

use crate::{DataRoot, DataRootError, Service};

/// Longest credential file that is read, in bytes.
const CREDENTIAL_BYTES: u64 = 4096;

/// How long another process may take to make its credentials, and how often it is looked at.
const LOCK_LIMIT: Duration = Duration::from_secs(20);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// A bearer token. Shown nowhere: `Debug` hides it.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token, to be put into the metadata of a call.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is stored of it by those who verify it.
    #[must_use]
    pub fn hash(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    fn generate() -> Self {
        let mut random = [0_u8; 32];
        rand::rng().fill(&mut random);
        Self(hex(&random))
    }
}

/// The secret half of the key that signs where a ledger was cut. Shown nowhere: `Debug` hides it.
#[derive(Clone)]
pub struct LedgerKey([u8; 32]);

impl LedgerKey {
    /// The secret: the seed of an Ed25519 key.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    fn generate() -> Self {
        let mut seed = [0_u8; 32];
        rand::rng().fill(&mut seed);
        Self(seed)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut seed = [0_u8; 32];
        let (pairs, rest) = text.trim().as_bytes().as_chunks::<2>();
        if pairs.len() != seed.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in seed.iter_mut().zip(pairs) {
            let value = |digit: &u8| char::from(*digit).to_digit(16);
            *byte = u8::try_from(value(high)? * 16 + value(low)?).ok()?;
        }
        Some(Self(seed))
    }
}

impl std::fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LedgerKey(..)")
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Whom a service knows: principal (`operator`, `service:<name>`) to the hash of its token.
pub type TokenHashes = BTreeMap<String, Digest>;

/// The token files of a data root, and the hash file that each service verifies from.
#[derive(Debug, Clone)]
pub struct Credentials {
    directory: PathBuf,
}

impl Credentials {
    /// The credentials of a data root.
    #[must_use]
    pub fn of(root: &DataRoot) -> Self {
        Self { directory: root.credentials() }
    }

    /// Makes every token that is missing, and brings each service's hash file up to date.
    ///
    /// # Errors
    /// When a file can't be read or written.
    pub fn ensure(&self) -> Result<(), DataRootError> {
        // Services that start at the same time must not know different tokens.
        let _lock = self.lock()?;
        self.sweep()?;
        let principals = [None, Some(Service::Broker), Some(Service::Launcher), Some(Service::Runner)];
        let mut hashes = TokenHashes::new();
        for service in principals {
            let token = self.ensure_token(service)?;
            hashes.insert(principal(service), token.hash());
        }
        for service in Service::ALL {
            let text = serde_json::to_string_pretty(&hashes).expect("a map of strings serializes");
            write_private(&self.hash_file(service), text.as_bytes())?;
        }
        Ok(())
    }

    /// Waits for whoever makes tokens just now; a process that is killed gives its lock up.
    fn lock(&self) -> Result<Flock<fs::File>, DataRootError> {
        let io = |error| DataRootError::io("lock", &self.directory)(error);
        let deadline = Instant::now() + LOCK_LIMIT;
        loop {
            let file = fs::File::open(&self.directory).map_err(io)?;
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => return Ok(lock),
                Err((_, Errno::EWOULDBLOCK)) if Instant::now() < deadline => std::thread::sleep(LOCK_PAUSE),
                Err((_, errno)) => return Err(io(errno.into())),
            }
        }
    }

    /// Removes what a process that was killed has left half written.
    fn sweep(&self) -> Result<(), DataRootError> {
        let entries = fs::read_dir(&self.directory).map_err(DataRootError::io("read", &self.directory))?;
        let is_temporary = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "tmp");
        for path in entries.flatten().map(|entry| entry.path()).filter(is_temporary) {
            fs::remove_file(&path).map_err(DataRootError::io("remove", &path))?;
        }
        Ok(())
    }

    /// The operator's token.
    ///
    /// # Errors
    /// When it can't be read: then the caller is not the operator.
    pub fn operator(&self) -> Result<Token, DataRootError> {
        read_token(&self.token_file(None))
    }

    /// A service's own token.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn service(&self, service: Service) -> Result<Token, DataRootError> {
        read_token(&self.token_file(Some(service)))
    }

    /// Whom `service` knows.
    ///
    /// # Errors
    /// When its hash file can't be read.
    pub fn hashes(&self, service: Service) -> Result<TokenHashes, DataRootError> {
        let path = self.hash_file(service);
        let text = read_bounded(&path)?;
        serde_json::from_str(&text).map_err(|_not_ours| DataRootError::BadCredential { path })
    }

    /// The key that signs where the ledger was cut; made when it is missing. For the broker alone.
    ///
    /// # Errors
    /// When it can't be read or written, or is none.
    pub fn ledger_key(&self) -> Result<LedgerKey, DataRootError> {
        let _lock = self.lock()?;
        let path = self.directory.join("ledger.key");
        if !path.exists() {
            write_private(&path, format!("{}\n", hex(LedgerKey::generate().expose())).as_bytes())?;
        }
        LedgerKey::parse(&read_bounded(&path)?).ok_or(DataRootError::BadCredential { path })
    }

    fn ensure_token(&self, service: Option<Service>) -> Result<Token, DataRootError> {
        let path = self.token_file(service);
        if !path.exists() {
            let token = Token::generate();
            write_private(&path, format!("{}\n", token.0).as_bytes())?;
        }
        read_token(&path)
    }

    fn token_file(&self, service: Option<Service>) -> PathBuf {
        self.directory.join(format!("{}.token", service.map_or("operator", Service::name)))
    }

    fn hash_file(&self, service: Service) -> PathBuf {
        self.directory.join(format!("{service}.hashes.json"))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn principal(service: Option<Service>) -> String {
    service.map_or_else(|| "operator".to_owned(), |service| format!("service:{service}"))
}

fn read_token(path: &Path) -> Result<Token, DataRootError> {
    let token = read_bounded(path)?.trim().to_owned();
    let plausible = token.len() >= 32 && token.bytes().all(|byte| byte.is_ascii_graphic());
    if plausible { Ok(Token(token)) } else { Err(DataRootError::BadCredential { path: path.into() }) }
}

fn read_bounded(path: &Path) -> Result<String, DataRootError> {
    use std::io::Read as _;
    let file = fs::File::open(path).map_err(DataRootError::io("read", path))?;
    let mut text = String::new();
    file.take(CREDENTIAL_BYTES).read_to_string(&mut text).map_err(DataRootError::io("read", path))?;
    Ok(text)
}

/// Writes a file of mode 0600 whole or not at all: a crash leaves the old one or the new one. The caller holds the lock.
fn write_private(path: &Path, content: &[u8]) -> Result<(), DataRootError> {
    let temporary = path.with_extension("tmp");
    let write = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(DataRootError::io("write", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn tokens_are_made_once_private_and_known_to_every_service() {
        let scratch = tempfile::tempdir().expect("scratch");
        let root = DataRoot::create_or_open(&scratch.path().join("data")).expect("data root");
        let credentials = Credentials::of(&root);
        fs::write(root.credentials().join("operator.7.tmp"), "half").expect("written");
        credentials.ensure().expect("made");
        assert!(!root.credentials().join("operator.7.tmp").exists(), "what a killed process has left is gone");
        let operator = credentials.operator().expect("readable");
        credentials.ensure().expect("made again");
        assert_eq!(operator.hash(), credentials.operator().expect("readable").hash(), "kept");
        let hashes = credentials.hashes(Service::Broker).expect("readable");
        assert_eq!(hashes["operator"], operator.hash());
        assert_eq!(hashes["service:runner"], credentials.service(Service::Runner).expect("readable").hash());
        for entry in fs::read_dir(root.credentials()).expect("readable") {
            let entry = entry.expect("entry");
            assert_eq!(entry.metadata().expect("metadata").permissions().mode() & 0o777, 0o600, "{entry:?}");
        }
        assert!(!format!("{operator:?}").contains(operator.expose()));
    }

    #[test]
    fn the_key_of_the_ledger_is_made_once_private_and_read_back() {
        let scratch = tempfile::tempdir().expect("scratch");
        let root = DataRoot::create_or_open(&scratch.path().join("data")).expect("data root");
        let credentials = Credentials::of(&root);
        let key = credentials.ledger_key().expect("made");
        assert_eq!(credentials.ledger_key().expect("read").expose(), key.expose());
        let path = root.credentials().join("ledger.key");
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        for bad in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &"\u{e4}".repeat(32)] {
            fs::write(&path, bad).expect("written");
            assert!(matches!(credentials.ledger_key(), Err(DataRootError::BadCredential { .. })), "{bad}");
        }
    }
}
