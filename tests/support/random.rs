//! Chance that can be repeated: an ordinary run chooses the same every time, `STOCKADE_TEST_SEED` in the environment another.

/// The seed of an ordinary run, which is fixed so that only a change of the code can make it fail. `scripts/soak` uses
/// others.
const ORDINARY: u64 = 20_261_116;

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// One time in so many.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Printed, so that a failed run can be repeated: the harness shows it with the failure.
pub fn seed(test: &str) -> u64 {
    let given = std::env::var("STOCKADE_TEST_SEED").map(|seed| seed.parse().expect("a number"));
    let seed = given.unwrap_or(ORDINARY);
    println!("{test}: STOCKADE_TEST_SEED={seed}");
    seed
}
