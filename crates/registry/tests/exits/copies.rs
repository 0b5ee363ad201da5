//! Two copies of the library in one process, and one that its host unloads.
//! The copies are the example `registry_copy`, copied to two files so that the loader takes them for two.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use crate::host::{exit, say};

struct Copy {
    library: *mut c_void,
    create: extern "C" fn(number: c_int) -> u64,
    free: extern "C" fn(handle: u64) -> c_int,
}

/// Cargo builds examples beside the tests: `target/<profile>/examples`.
fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let extension = if cfg!(target_vendor = "apple") { "dylib" } else { "so" };
    let built = profile.join("examples").join(format!("libregistry_copy.{extension}"));
    assert!(
        built.exists(),
        "{} is missing: build it with `cargo build -p tintype-registry --examples`",
        built.display()
    );
    built
}

impl Copy {
    fn load(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{name}-{}.so", std::process::id()));
        std::fs::copy(built(), &path).unwrap();
        let c_path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: a library of this crate, whose constructors do nothing.
        let library = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        std::fs::remove_file(&path).unwrap();
        assert!(!library.is_null());
        let symbol = |name: &std::ffi::CStr| {
            // SAFETY: the library is loaded, and the name ends in zero.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            assert!(!symbol.is_null());
            symbol
        };
        let (create, free, named) =
            (symbol(c"copy_create"), symbol(c"copy_free"), symbol(c"copy_name"));
        // SAFETY: the example declares these functions so.
        let named: extern "C" fn(c_char) = unsafe { std::mem::transmute(named) };
        named(name.as_bytes()[0] as c_char);
        // SAFETY: as above.
        let create =
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(c_int) -> u64>(create) };
        // SAFETY: as above.
        let free = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u64) -> c_int>(free) };
        Self { library, create, free }
    }
}

pub(crate) fn two_copies() {
    let (a, b) = (Copy::load("a"), Copy::load("b"));
    let of_a = (a.create)(1);
    let of_b = (b.create)(1);
    (a.create)(2);
    (b.create)(2);
    let crossed = [(a.free)(of_b), (b.free)(of_a)];
    let own = [(a.free)(of_a), (a.free)(of_a)];
    say(&format!("crossed {crossed:?} own {own:?}"));
    exit(0);
}

pub(crate) fn unloaded_copy() {
    let a = Copy::load("a");
    let create = a.create;
    // On a thread that ends, since the C library itself keeps the code of thread destructors loaded.
    let creator = std::thread::spawn(move || (create(1), create(2)));
    let (_, second) = creator.join().unwrap();
    // SAFETY: the library promises to stay loaded.
    assert_eq!(unsafe { libc::dlclose(a.library) }, 0);
    // A finalizer that comes late.
    say(&format!("closed {}", (a.free)(second)));
    exit(0);
}
