//! The compute core.
