//! Where this machine keeps its Vulkan loader, drivers and layers, and the environment that lets
//! tests use them. It looks at files only; whether a driver works is for the tests to say.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::output;

/// Folders whose `icd.d` and `explicit_layer.d` loaders search, and one that NVIDIA's container
/// images use and loaders do not know.
const SHARES: [&str; 4] = [
    "/etc/vulkan",
    "/usr/local/share/vulkan",
    "/usr/share/vulkan",
    "/usr/local/nvidia/share/vulkan",
];

/// Variables by which a user picks drivers; set, they are obeyed.
const DRIVER_VARS: [&str; 3] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"];

/// What tests may expect of Vulkan here.
pub(crate) struct Vulkan {
    /// Drivers for the tests: what to set, empty where the loader's own search is right.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// A loader and a driver are there, so tests must not skip.
    pub(crate) expected: bool,
    /// The Khronos validation layer is there too.
    pub(crate) validation: bool,
    /// In words, for the summary.
    pub(crate) described: String,
}

impl Vulkan {
    /// Looks at this machine.
    pub(crate) fn find() -> Self {
        let chosen_by_user = DRIVER_VARS.iter().any(|name| std::env::var_os(name).is_some());
        let (environment, expected, described) = choose(
            loader_is_there(),
            chosen_by_user,
            gpu_node_is_there(),
            software_manifest(),
            hidden_manifest(),
        );
        let validation = expected && validation_manifest().is_some();
        Vulkan { environment, expected, validation, described }
    }
}

type Choice = (Vec<(&'static str, String)>, bool, String);

/// The rule: a user's own choice stands; with a GPU every driver is offered, software too; without
/// one only the software driver, so that drivers of absent cards are not even loaded.
fn choose(
    loader: bool,
    chosen_by_user: bool,
    gpu: bool,
    software: Option<PathBuf>,
    hidden: Option<PathBuf>,
) -> Choice {
    if !loader {
        return (vec![], false, "no Vulkan loader".into());
    }
    if chosen_by_user {
        return (vec![], true, "Vulkan drivers as the environment says".into());
    }
    match (gpu, software) {
        (true, software) => {
            let environment = hidden
                .map(|path| ("VK_ADD_DRIVER_FILES", path.display().to_string()))
                .into_iter()
                .collect::<Vec<_>>();
            // A node alone is no promise: its driver may be for pictures only.
            let expected = software.is_some() || !environment.is_empty();
            (environment, expected, "Vulkan drivers of this machine, its GPU included".into())
        }
        (false, Some(path)) => {
            let path = path.display().to_string();
            let environment = vec![("VK_DRIVER_FILES", path.clone()), ("VK_ICD_FILENAMES", path)];
            (environment, true, "software Vulkan".into())
        }
        (false, None) => (vec![], false, "no Vulkan driver".into()),
    }
}

/// Whether the system's loader can be opened by name.
pub(super) fn loader_is_there() -> bool {
    if cfg!(not(target_os = "linux")) {
        return false;
    }
    let ldconfig = ["ldconfig", "/sbin/ldconfig"]
        .iter()
        .find_map(|program| output(Command::new(program).arg("-p")).ok());
    match ldconfig {
        Some(known) => known.contains("libvulkan.so.1"),
        None => ["/usr/lib/libvulkan.so.1", "/usr/lib64/libvulkan.so.1"]
            .iter()
            .any(|path| Path::new(path).exists()),
    }
}

/// The manifest of Mesa's software driver.
pub(super) fn software_manifest() -> Option<PathBuf> {
    manifest("icd.d", &SHARES, |name| name.starts_with("lvp_icd"))
}

/// The manifest of Khronos' validation layer.
pub(super) fn validation_manifest() -> Option<PathBuf> {
    manifest("explicit_layer.d", &SHARES, |name| name == "VkLayer_khronos_validation.json")
}

/// A driver's manifest where loaders do not look.
fn hidden_manifest() -> Option<PathBuf> {
    manifest("icd.d", &SHARES[3..], |_| true)
}

fn gpu_node_is_there() -> bool {
    let render = std::fs::read_dir("/dev/dri").is_ok_and(|nodes| {
        nodes.flatten().any(|node| node.file_name().to_string_lossy().starts_with("renderD"))
    });
    render || Path::new("/dev/nvidiactl").exists()
}

fn manifest(folder: &str, shares: &[&str], wanted: fn(&str) -> bool) -> Option<PathBuf> {
    let files = shares.iter().filter_map(|share| Path::new(share).join(folder).read_dir().ok());
    files.flat_map(|entries| entries.flatten()).map(|entry| entry.path()).find(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.ends_with(".json") && wanted(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(loader: bool, user: bool, gpu: bool, software: bool, hidden: bool) -> Choice {
        let path = |there: bool, name: &str| there.then(|| PathBuf::from(name));
        choose(loader, user, gpu, path(software, "lvp.json"), path(hidden, "nv.json"))
    }

    #[test]
    fn without_a_gpu_only_the_software_driver_is_offered() {
        let (environment, expected, _) = case(true, false, false, true, true);
        assert!(expected);
        assert!(environment.iter().all(|(_, value)| value == "lvp.json"));
        assert_eq!(environment.len(), 2);
    }

    #[test]
    fn with_a_gpu_its_driver_is_offered_too() {
        let (environment, expected, _) = case(true, false, true, true, true);
        assert_eq!(environment, [("VK_ADD_DRIVER_FILES", "nv.json".to_string())]);
        assert!(expected);
        let (environment, expected, _) = case(true, false, true, true, false);
        assert!(environment.is_empty() && expected);
    }

    #[test]
    fn nothing_is_expected_where_nothing_can_work() {
        assert!(!case(false, true, true, true, true).1);
        assert!(!case(true, false, false, false, false).1);
        assert!(!case(true, false, true, false, false).1);
    }

    #[test]
    fn what_the_user_chose_stands() {
        let (environment, expected, _) = case(true, true, false, true, true);
        assert!(environment.is_empty() && expected);
    }
}
