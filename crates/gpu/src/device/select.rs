//! Which devices are there and which one a selector means. It must not know what devices do.

use std::str::FromStr;
use std::sync::OnceLock;

use super::{Backend, Device, DeviceInfo, DeviceKind, DeviceOptions};
use crate::backend::{self, BackendDevice};
use crate::error::{Error, Result};

/// Every device found, and why a backend found none.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Devices, the best one first.
    pub devices: Vec<DeviceInfo>,
    /// Backends that could not be asked, with the reason.
    pub unavailable: Vec<(Backend, String)>,
}

impl Listing {
    /// The best device with at least `bytes` free, software drivers left out: what to open for a
    /// model of that size. `None` if nothing has room.
    pub fn best_fit(&self, bytes: u64) -> Option<&DeviceInfo> {
        self.devices
            .iter()
            .find(|info| info.kind != DeviceKind::Software && info.memory.free >= bytes)
    }
}

/// What names a device: `"best"`, `"cpu"`, `"vulkan"`, `"vulkan:1"`, or part of a device's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The best there is: discrete, then integrated, then virtual GPUs, then the CPU backend. A
    /// software graphics driver is never chosen unasked: the CPU backend is faster.
    Best,
    /// A backend, and which of its devices.
    Backend(Backend, Option<usize>),
    /// Part of a device's name, in any case.
    Name(String),
}

impl Selector {
    /// The selector in `TINTYPE_DEVICE`, or [`Selector::Best`].
    pub fn from_env() -> Result<Selector> {
        match std::env::var("TINTYPE_DEVICE") {
            Ok(text) if !text.trim().is_empty() => text.parse(),
            Ok(_) | Err(std::env::VarError::NotPresent) => Ok(Selector::Best),
            Err(std::env::VarError::NotUnicode(text)) => Err(Error::BadSelector {
                given: text.to_string_lossy().into_owned(),
                reason: "TINTYPE_DEVICE is not Unicode".into(),
            }),
        }
    }

    /// Position in `listing` of the device this selector means: the best of those that match.
    pub fn choose(&self, listing: &Listing) -> Result<usize> {
        let found = listing.devices.iter().position(|info| self.matches(info));
        found.ok_or_else(|| no_device(self, listing))
    }

    fn matches(&self, info: &DeviceInfo) -> bool {
        match self {
            Selector::Best => info.kind != DeviceKind::Software,
            Selector::Backend(backend, index) => {
                info.backend == *backend && index.is_none_or(|index| index == info.index)
            }
            Selector::Name(part) => info.name.to_lowercase().contains(&part.to_lowercase()),
        }
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Selector::Best => f.write_str("best"),
            Selector::Backend(backend, None) => backend.fmt(f),
            Selector::Backend(backend, Some(index)) => write!(f, "{backend}:{index}"),
            Selector::Name(part) => f.write_str(part),
        }
    }
}

impl FromStr for Selector {
    type Err = Error;

    fn from_str(text: &str) -> Result<Selector> {
        let given = text.trim();
        let bad = |reason: &str| Error::BadSelector { given: given.into(), reason: reason.into() };
        if given.is_empty() {
            return Err(bad("it is empty"));
        }
        let lower = given.to_lowercase();
        if lower == "best" || lower == "auto" {
            return Ok(Selector::Best);
        }
        let (head, index) = match lower.split_once(':') {
            Some((head, index)) => (head, Some(index)),
            None => (lower.as_str(), None),
        };
        let Some(backend) = Backend::ALL.into_iter().find(|backend| backend.name() == head) else {
            return Ok(Selector::Name(given.into()));
        };
        let index = index
            .map(|index| index.parse().map_err(|_| bad("what follows the colon is no number")))
            .transpose()?;
        Ok(Selector::Backend(backend, index))
    }
}

/// Asks every backend for its devices. Never fails: the CPU backend is always there.
pub fn list() -> Listing {
    list_backends(&Backend::ALL)
}

/// By backend: whether its drivers, which its first question loads, were told to the exit handlers.
static ASKED: [OnceLock<Result<()>>; Backend::ALL.len()] =
    [const { OnceLock::new() }; Backend::ALL.len()];

fn list_backends(backends: &[Backend]) -> Listing {
    let mut listing = Listing::default();
    for &backend in backends {
        let found = backend::enumerate(backend);
        let hooked = match backend {
            Backend::Cpu => Ok(()),
            // Drivers are loaded by the first question; later ones load nothing.
            _ => ASKED[backend as usize].get_or_init(|| driver_ran(backend)).clone(),
        };
        match hooked.and(found) {
            Ok(devices) => listing.devices.extend(devices),
            Err(error) => listing.unavailable.push((backend, error.to_string())),
        }
    }
    listing.devices.sort_by_key(|info| (info.kind, info.backend, info.index));
    listing
}

/// What a driver registered to run at exit must run after our own teardown; it may have done so when it
/// was loaded, made an instance or a device.
fn driver_ran(backend: Backend) -> Result<()> {
    let hooked = tintype_registry::hooks::after_driver_load();
    hooked.map(drop).map_err(|error| Error::BackendUnavailable {
        backend: backend.name(),
        reason: error.to_string(),
    })
}

/// Opens the best device that `selector` matches; asks only the backends that can match.
pub(super) fn open(selector: &Selector, options: DeviceOptions) -> Result<Device> {
    let listing = match selector {
        Selector::Backend(backend, _) => list_backends(&[*backend]),
        _ => list(),
    };
    let info = &listing.devices[selector.choose(&listing)?];
    let opened = backend::open(info, &options);
    if info.backend != Backend::Cpu {
        driver_ran(info.backend)?;
    }
    let backend: Box<dyn BackendDevice> = opened?;
    Ok(Device::start(backend, options))
}

fn no_device(selector: &Selector, listing: &Listing) -> Error {
    let name = |info: &DeviceInfo| format!("{} ({})", info.selector(), info.name);
    let available: Vec<_> = listing.devices.iter().map(name).collect();
    let reasons: Vec<_> = listing.unavailable.iter().map(|(_, why)| why.clone()).collect();
    Error::NoDevice {
        wanted: selector.to_string(),
        available: if available.is_empty() { "none".into() } else { available.join(", ") },
        hint: (!reasons.is_empty()).then(|| reasons.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_read_back() {
        for text in ["best", "cpu", "vulkan", "vulkan:1", "metal:0", "H200"] {
            assert_eq!(text.parse::<Selector>().unwrap().to_string(), text);
        }
        assert!(matches!("vulkan:x".parse::<Selector>(), Err(Error::BadSelector { .. })));
        assert!("  ".parse::<Selector>().is_err());
    }

    #[test]
    fn the_cpu_is_always_listed() {
        assert!(list().devices.iter().any(|info| info.backend == Backend::Cpu));
    }

    #[test]
    fn the_best_fit_has_room_and_is_no_software_driver() {
        let mut listing = list();
        listing.devices.retain(|info| info.backend == Backend::Cpu);
        let cpu = listing.devices[0].clone();
        let with = |kind, free| {
            let mut info = cpu.clone();
            (info.kind, info.memory.free) = (kind, free);
            info
        };
        listing.devices = vec![
            with(DeviceKind::Discrete, 8),
            with(DeviceKind::Integrated, 12),
            with(DeviceKind::Cpu, 20),
            with(DeviceKind::Software, 99),
        ];
        let kind = |bytes| listing.best_fit(bytes).map(|info| info.kind);
        assert_eq!(kind(8), Some(DeviceKind::Discrete));
        assert_eq!(kind(9), Some(DeviceKind::Integrated));
        assert_eq!(kind(20), Some(DeviceKind::Cpu));
        assert_eq!(kind(21), None);
    }

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let error = Device::open(&Selector::Name("no such thing".into()), DeviceOptions::default());
        let message = error.unwrap_err().to_string();
        assert!(message.contains("cpu:0"), "{message}");
    }
}
