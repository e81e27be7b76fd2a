//! What a litmus observed, each value with what the manual allows.

/// What a value may be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Allowed {
    /// This.
    Is(u32),
    /// One of two: the manual leaves it open, or the chip is known to do more than the manual says.
    OneOf([u32; 2]),
    /// The bits of a float not farther than `bound` from the exact result.
    Near {
        /// The exact result.
        want: f64,
        /// How far the result may be.
        bound: f64,
    },
    /// Anything: recorded, and not compared.
    Any,
}

impl Allowed {
    /// Whether a value is allowed.
    pub fn holds(self, have: u32) -> bool {
        match self {
            Self::Is(want) => have == want,
            Self::OneOf(wants) => wants.contains(&have),
            Self::Near { want, bound } => (f64::from(f32::from_bits(have)) - want).abs() <= bound,
            Self::Any => true,
        }
    }

    /// In words.
    pub fn describe(self) -> String {
        match self {
            Self::Is(want) => format!("{want:#x}"),
            Self::OneOf([a, b]) => format!("{a:#x} or {b:#x}"),
            Self::Near { want, bound } => format!("{want} within {bound:e}"),
            Self::Any => "anything".to_owned(),
        }
    }
}

/// One observed value.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Index into [`Log::parts`].
    pub part: usize,
    /// Which value of that part.
    pub index: usize,
    /// The value.
    pub have: u32,
    /// What it may be.
    pub allowed: Allowed,
}

/// What a litmus observed, in order.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// What the parts are.
    pub parts: Vec<String>,
    /// The values.
    pub seen: Vec<Seen>,
    index: usize,
}

impl Log {
    /// The values that follow belong to this.
    pub fn part(&mut self, name: impl Into<String>) {
        self.parts.push(name.into());
        self.index = 0;
    }

    /// One value.
    pub fn push(&mut self, have: u32, allowed: Allowed) {
        if self.parts.is_empty() {
            self.part("");
        }
        let part = self.parts.len() - 1;
        self.seen.push(Seen { part, index: self.index, have, allowed });
        self.index += 1;
    }

    /// Values that must be these.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn exactly(&mut self, have: &[u32], want: impl IntoIterator<Item = u32>) {
        let want: Vec<u32> = want.into_iter().collect();
        assert_eq!(have.len(), want.len(), "the litmus and its expectation");
        for (&have, want) in have.iter().zip(want) {
            self.push(have, Allowed::Is(want));
        }
    }

    /// Values in the order of a table of expectations, each with the sentence that it comes from.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn table(&mut self, have: &[u32], rows: &[(u32, &str)]) {
        assert_eq!(have.len(), rows.len(), "the litmus and its table");
        for (&have, &(want, words)) in have.iter().zip(rows) {
            self.part(words);
            self.push(have, Allowed::Is(want));
        }
    }

    /// Where a value stands, in words.
    pub fn place(&self, seen: &Seen) -> String {
        format!("{} [{}]", self.parts[seen.part], seen.index)
    }
}
