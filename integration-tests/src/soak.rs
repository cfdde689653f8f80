use std::time::Duration;

/// A tenth of `full`, or as much of it as `MOSAIC_SOAK` says; `MOSAIC_SOAK=1` is all.
#[must_use]
pub fn soak(full: u32) -> u32 {
    let share = std::env::var("MOSAIC_SOAK").ok().and_then(|share| share.parse().ok()).unwrap_or(0.1_f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count, far below the bounds")]
    let count = (f64::from(full) * share) as u32;
    count.max(1)
}

/// Random choices that can be made again: the seed is printed, and `MOSAIC_SEED` sets it.
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// Choices of a test, from the environment's seed or from one of its own.
    ///
    /// # Panics
    /// When the environment's seed is no number.
    #[must_use]
    pub fn of_this_run() -> Self {
        let seed = match std::env::var("MOSAIC_SEED") {
            Ok(text) => text.parse().expect("MOSAIC_SEED is a number"),
            Err(_unset) => u64::from(std::process::id()) << 20 ^ u64::from(jitter()),
        };
        report(&format!("MOSAIC_SEED={seed} makes the same choices again"));
        Self { state: seed }
    }

    /// Choices of a part of a test, which do not depend on how often another part chooses.
    #[must_use]
    pub fn of_part(&mut self) -> Self {
        Self { state: self.next() }
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A duration below `bound`, to the microsecond.
    ///
    /// # Panics
    /// When the bound is no duration of this age of the world.
    pub fn duration(&mut self, bound: Duration) -> Duration {
        Duration::from_micros(self.below(u64::try_from(bound.as_micros()).expect("a short duration").max(1)))
    }

    /// One of `options`.
    pub fn choose<'a, T>(&mut self, options: &'a [T]) -> &'a T {
        let index = self.below(options.len() as u64);
        &options[usize::try_from(index).expect("below a length")]
    }

    /// splitmix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Says something about a test: with `--nocapture`, or when it fails.
#[expect(clippy::print_stdout, reason = "tests speak on standard output")]
pub fn report(line: &str) {
    println!("{line}");
}

/// Something of this moment.
fn jitter() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos())
}
