//! What can go wrong while sampling, in words a user can act on.

/// Why sampling cannot begin, go on or be resumed.
#[derive(Debug, thiserror::Error)]
pub enum SamplingError {
    /// Betas or cumulated alphas that are no noise schedule.
    #[error("noise schedule: {0}")]
    Schedule(String),
    /// The number of steps does not fit the schedule.
    #[error("{steps} steps: a schedule of {timesteps} timesteps allows 1 to {timesteps}")]
    Steps {
        /// Steps asked for.
        steps: usize,
        /// Timesteps that the model was trained on.
        timesteps: usize,
    },
    /// A strength outside (0, 1].
    #[error("strength {0}: it must be above 0 (keep the picture) and at most 1 (draw it anew)")]
    Strength(f32),
    /// A slice whose length is not that of the latents.
    #[error("{what} has {len} numbers where the latents have {expected}")]
    Length {
        /// Which slice.
        what: &'static str,
        /// Its length.
        len: usize,
        /// The latents' length.
        expected: usize,
    },
    /// The network or the arithmetic gave NaN or infinity.
    #[error("step {step} of {steps}: {what} is not finite at element {index}")]
    NotFinite {
        /// Counted from 1.
        step: usize,
        /// Steps in all.
        steps: usize,
        /// The prediction or the latents.
        what: &'static str,
        /// The first bad element.
        index: usize,
    },
    /// A step after the last.
    #[error("all {0} steps are done")]
    Done(usize),
    /// A checkpoint that cannot be read.
    #[error("checkpoint: {0}")]
    Checkpoint(String),
}
