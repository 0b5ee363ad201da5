//! What errors show of a hostile file: nothing that steers a terminal, and not too much of it.

use super::*;

/// The message of a safetensors header that is refused.
fn message(header: &str) -> String {
    open("bad", safetensors(header, &[0])).unwrap_err().to_string()
}

#[test]
fn errors_do_not_steer_the_terminal() {
    let esc = r"\u001b[31m\u202e";
    let mut torch = b"(".to_vec();
    torch.extend(pickle_text("storage"));
    torch.extend(b"ctorch\n\x1b[31mStorage\n");
    torch.extend([pickle_text("0"), pickle_text("cpu")].concat());
    torch.extend(b"K\x06tQ");
    let messages = [
        message(&format!(r#"{{"w":{{"dtype":"{esc}","shape":[1],"data_offsets":[0,1]}}}}"#)),
        message(&format!(r#"{{"w":{{"dtype":"I8","{esc}":1}}}}"#)),
        message(&format!(r#"{{"{esc}":{{"dtype":"I8","shape":[2],"data_offsets":[0,1]}}}}"#)),
        open("bad", legacy(&pickle_of(&torch), true)).unwrap_err().to_string(),
        open("\u{1b}[31m", *b"no").unwrap_err().to_string(),
    ];
    for message in messages {
        assert!(message.contains("[31m"), "{message:?}");
        assert!(!message.contains(['\u{1b}', '\u{202e}']), "{message:?}");
    }
}

#[test]
fn errors_do_not_flood_the_terminal() {
    let long = "x".repeat(1 << 20);
    for message in [
        message(&format!(r#"{{"w":{{"dtype":"I8","{long}":1}}}}"#)),
        message(&format!(r#"{{"w":{{"dtype":"{long}","shape":[1],"data_offsets":[0,1]}}}}"#)),
        message(&format!(r#"{{"{long}":{{"dtype":"I8","shape":[1],"data_offsets":[0,1]}}}}"#)),
    ] {
        assert!(message.chars().count() <= 2001, "{} bytes", message.len());
    }
}

#[test]
fn causes_are_told_once() {
    let error = Weights::open("/no/such/file.gguf").unwrap_err();
    assert!(std::error::Error::source(&error).is_none(), "{error:?}");
    assert_eq!(error.to_string().matches("No such file").count(), 1, "{error}");
}
