//! Waiting longer after each failure, with a limit, and never all at the same moment.

use std::time::Duration;

/// Delays that double from a first to a longest one, each shortened by up to a quarter so that many clients of one server
/// do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
    /// State of the jitter: any number will do, the same one gives the same delays.
    seed: u64,
}

impl Backoff {
    /// Delays between these two; `seed` chooses the jitter.
    pub fn new(first: Duration, longest: Duration, seed: u64) -> Self {
        Self {
            first,
            longest,
            failures: 0,
            seed,
        }
    }

    /// Something failed: how long to wait before it is tried again.
    pub fn next_delay(&mut self) -> Duration {
        let doubled = 2_u32.saturating_pow(self.failures.min(31));
        self.failures = self.failures.saturating_add(1);
        let delay = self.first.saturating_mul(doubled).min(self.longest);
        // The generator of Steele, Lea and Flood (SplitMix64): plenty for spreading delays.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let share = (mixed >> 40) as u32 % 1024;
        delay - delay / 4096 * share
    }

    /// It went well: the next failure starts over.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// How many failures there were in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(30));
        for seed in [0, 1, u64::MAX] {
            let mut backoff = Backoff::new(first, longest, seed);
            for expected in [1, 2, 4, 8, 16, 30, 30] {
                let expected = Duration::from_secs(expected);
                let delay = backoff.next_delay();
                assert!(
                    delay <= expected && delay >= expected * 3 / 4,
                    "{delay:?}, not about {expected:?}"
                );
            }
            backoff.reset();
            assert!(backoff.next_delay() <= first);
        }
        let mut many = Backoff::new(first, longest, 7);
        many.failures = u32::MAX;
        assert!(many.next_delay() <= longest);
    }

    #[test]
    fn seeds_spread_the_delays() {
        let delays: std::collections::BTreeSet<_> = (0..100)
            .map(|seed| {
                Backoff::new(Duration::from_secs(1), Duration::from_secs(1), seed).next_delay()
            })
            .collect();
        assert!(delays.len() > 50, "{}", delays.len());
    }
}
