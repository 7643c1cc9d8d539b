//! Order statistics. Nothing here assumes a distribution: the noise of a shared machine has none worth naming.

/// p10, p50 and p90 of what was measured.
#[derive(Clone, Copy)]
pub struct Spread {
    pub p10: f64,
    pub p50: f64,
    pub p90: f64,
}

impl Spread {
    pub fn of(values: &mut [f64]) -> Self {
        Self { p10: quantile(values, 0.1), p50: quantile(values, 0.5), p90: quantile(values, 0.9) }
    }

    /// In another unit.
    pub fn scaled(self, factor: f64) -> Self {
        Self { p10: self.p10 * factor, p50: self.p50 * factor, p90: self.p90 * factor }
    }

    /// A number that was counted, not sampled.
    pub fn exact(value: f64) -> Self {
        Self { p10: value, p50: value, p90: value }
    }
}

/// Sorts; nearest rank.
pub fn quantile(values: &mut [f64], q: f64) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * q).round() as usize]
}

/// Two things measured in turns: `rounds` times, each round `ours` then `yardstick` or the other way round, so that a
/// drift of the machine hits both. Each closure gives the samples of its round.
pub struct Interleaved {
    /// Ratio of the medians, one per round.
    pub ratio: Spread,
    pub ours: Spread,
    pub yardstick: Spread,
}

pub fn interleave(
    rounds: usize,
    mut ours: impl FnMut() -> Vec<f64>,
    mut yardstick: impl FnMut() -> Vec<f64>,
) -> Interleaved {
    let (mut ratios, mut all_ours, mut all_theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let (mut a, mut b);
        if round % 2 == 0 {
            a = ours();
            b = yardstick();
        } else {
            b = yardstick();
            a = ours();
        }
        ratios.push(quantile(&mut a, 0.5) / quantile(&mut b, 0.5));
        all_ours.append(&mut a);
        all_theirs.append(&mut b);
    }
    Interleaved {
        ratio: Spread::of(&mut ratios),
        ours: Spread::of(&mut all_ours),
        yardstick: Spread::of(&mut all_theirs),
    }
}

/// Several things measured in turns; who begins changes with each round.
pub struct Turns {
    /// One median per round, of each.
    medians: Vec<Vec<f64>>,
    all: Vec<Vec<f64>>,
}

impl Turns {
    /// `measure` is asked for the samples of one contestant in one round.
    pub fn take(rounds: usize, contestants: usize, mut measure: impl FnMut(usize) -> Vec<f64>) -> Self {
        let mut turns = Self { medians: vec![vec![]; contestants], all: vec![vec![]; contestants] };
        for round in 0..rounds {
            for step in 0..contestants {
                // Backwards in every second cycle, so that nobody always follows the same one.
                let place = if (round / contestants).is_multiple_of(2) { step } else { contestants - 1 - step };
                let who = (round + place) % contestants;
                let mut samples = measure(who);
                turns.medians[who].push(quantile(&mut samples, 0.5));
                turns.all[who].append(&mut samples);
            }
        }
        turns
    }

    /// From one value of each contestant in each round.
    pub fn of_rounds(values: Vec<Vec<f64>>) -> Self {
        Self { medians: values.clone(), all: values }
    }

    pub fn ratio(&self, who: usize, against: usize) -> Spread {
        let pairs = self.medians[who].iter().zip(&self.medians[against]);
        Spread::of(&mut pairs.map(|(a, b)| a / b).collect::<Vec<f64>>())
    }

    pub fn of(&self, who: usize) -> Spread {
        Spread::of(&mut self.all[who].clone())
    }
}
