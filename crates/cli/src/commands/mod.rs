//! The subcommands, one file each.

pub(crate) mod convert;
pub(crate) mod devices;
pub(crate) mod imagine;
pub(crate) mod inspect;
