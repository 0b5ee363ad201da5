//! Strings that end a text, found across the pieces in which it arrives. It must not know tokens.

/// Text that is not handed out yet, as it may be the beginning of a stop string.
pub(super) struct Stops<'a> {
    stops: &'a [String],
    held: String,
}

impl<'a> Stops<'a> {
    pub(super) fn new(stops: &'a [String]) -> Self {
        Stops { stops, held: String::new() }
    }

    /// The text that is sure now, and the stop string that ends it, if one does: the first to stand
    /// there, of several the longest.
    pub(super) fn push(&mut self, piece: &str) -> (String, Option<&'a str>) {
        self.held.push_str(piece);
        let found = self.stops.iter().filter_map(|stop| Some((self.held.find(stop)?, stop)));
        let first = found.min_by_key(|(at, stop)| (*at, std::cmp::Reverse(stop.len())));
        if let Some((at, stop)) = first {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), Some(stop));
        }
        let begins = |at: &usize| self.stops.iter().any(|stop| stop.starts_with(&self.held[*at..]));
        let places = self.held.char_indices().map(|(at, _)| at);
        let at = places.into_iter().find(begins).unwrap_or(self.held.len());
        let rest = self.held.split_off(at);
        (std::mem::replace(&mut self.held, rest), None)
    }

    /// What was held back, when nothing follows.
    pub(super) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}
