use std::time::Duration;

/// What one turn measured.
#[derive(Debug)]
pub(crate) struct Turn {
    /// How long each append or read took.
    pub(crate) latencies: Vec<Duration>,
    /// How long all of them took together.
    pub(crate) elapsed: Duration,
}

impl Turn {
    fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.elapsed.as_secs_f64()
    }

    /// Milliseconds that this share of the latencies does not exceed.
    fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
        sorted.get(at).map_or(f64::NAN, |latency| latency.as_secs_f64() * 1000.0)
    }
}

/// One turn in three numbers.
#[derive(Debug, Clone, Copy)]
struct Figures {
    rate: f64,
    p50: f64,
    p99: f64,
}

/// Turns by case and system, in the order in which they were first added.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<(String, String, Vec<Figures>)>,
}

impl Table {
    pub(crate) fn add(&mut self, case: &str, system: &str, turn: &Turn) {
        let figures = Figures { rate: turn.rate(), p50: turn.quantile(0.5), p99: turn.quantile(0.99) };
        match self.rows.iter_mut().find(|(its_case, its_system, _)| its_case == case && its_system == system) {
            Some((_, _, turns)) => turns.push(figures),
            None => self.rows.push((case.to_owned(), system.to_owned(), vec![figures])),
        }
    }

    /// Medians over the rounds; the ratio is the first system's rate to this one's, of the same case.
    pub(crate) fn print(&self) {
        println!("\n| case | system | a second | p50 | p99 | first / this |\n| --- | --- | --- | --- | --- | --- |");
        for (case, system, turns) in &self.rows {
            let of = |figure: fn(&Figures) -> f64| median(turns.iter().map(figure));
            let first = self
                .rows
                .iter()
                .find(|(its_case, ..)| its_case == case)
                .map_or(f64::NAN, |(_, _, turns)| median(turns.iter().map(|turn| turn.rate)));
            let rate = of(|turn| turn.rate);
            let (p50, p99) = (of(|turn| turn.p50), of(|turn| turn.p99));
            println!("| {case} | {system} | {rate:.0} | {p50:.2} ms | {p99:.2} ms | {:.2} |", first / rate);
        }
        println!();
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
