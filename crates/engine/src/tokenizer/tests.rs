//! Against SentencePiece (`cargo xtask golden`), and against vocabularies that are damaged.

use serde::Deserialize;

use super::{TokenizerError, Unigram};
use crate::weights::{Array, Format, Parts, Source, Value, ValueType, Weights};

#[derive(Deserialize)]
struct Row {
    text: String,
    ids: Vec<u32>,
}

fn pocket() -> Unigram {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/pocket/pocket.gguf");
    Unigram::from_weights(&Weights::open(path).unwrap()).unwrap()
}

#[test]
fn ids_are_sentencepieces() {
    let rows: Vec<Row> =
        serde_json::from_str(include_str!("../../tests/data/tokenizer/pocket.json")).unwrap();
    let unigram = pocket();
    assert!(rows.len() > 100);
    for Row { text, ids } in rows {
        assert_eq!(unigram.encode(&text), ids, "{text:?}");
    }
}

#[test]
fn long_texts_end_with_the_end() {
    let ids = pocket().encode(&"pizza ".repeat(10_000));
    assert_eq!((ids.len(), ids[23]), (24, 1));
}

/// A vocabulary of normal pieces after `<pad>`, `</s>` and `<unk>`, changed by `change`.
fn made(
    pieces: &[(&str, f32, i32)],
    change: impl FnOnce(&mut Vec<(String, Value)>),
) -> Result<Unigram, TokenizerError> {
    let all: Vec<_> = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2)]
        .iter()
        .chain(pieces)
        .copied()
        .collect();
    let scores: Vec<_> = all.iter().map(|p| Value::F32(p.1)).collect();
    let kinds: Vec<_> = all.iter().map(|p| Value::I32(p.2)).collect();
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let mut metadata = vec![
        (key("model"), Value::String("t5".to_owned())),
        (key("tokens"), Value::Array(Array::of_strings(all.iter().map(|p| p.0)))),
        (key("scores"), Value::Array(Array::of_values(ValueType::F32, &scores).unwrap())),
        (key("token_type"), Value::Array(Array::of_values(ValueType::I32, &kinds).unwrap())),
        (key("padding_token_id"), Value::U32(0)),
        (key("eos_token_id"), Value::U32(1)),
        (key("unknown_token_id"), Value::U32(2)),
    ];
    change(&mut metadata);
    let source = Source::from_vec("made", Vec::new());
    let parts = Parts { metadata, ..Parts::of(Format::Gguf, &source, Vec::new()) };
    Unigram::from_weights(&Weights::from_parts(parts).unwrap())
}

#[test]
fn the_likelier_split_wins_and_unknown_characters_join() {
    let unigram = made(
        &[("▁", -2.0, 1), ("a", -2.0, 1), ("b", -2.0, 1), ("ab", -3.0, 1), ("▁a", -5.0, 1)],
        |_| (),
    )
    .unwrap();
    assert_eq!(unigram.encode("ab"), [3, 6, 1]);
    assert_eq!(unigram.encode("aééb"), [3, 4, 2, 5, 1]);
}

#[test]
fn bytes_spell_unknown_characters() {
    let names: Vec<_> = (0..=255).map(|b| format!("<0x{b:02X}>")).collect();
    let mut pieces: Vec<_> = names.iter().map(|name| (name.as_str(), 0.0, 6)).collect();
    pieces.push(("▁", -1.0, 1));
    let unigram = made(&pieces, |_| ()).unwrap();
    assert_eq!(unigram.encode("é"), [3 + 256, 3 + 0xC3, 3 + 0xA9, 1]);
}

#[test]
fn damaged_vocabularies_are_refused() {
    let a = [("a", -1.0, 1)];
    assert!(made(&a, |_| ()).is_ok());
    for at in 0..7 {
        assert!(matches!(made(&a, |m| drop(m.remove(at))), Err(TokenizerError::Key { .. })));
    }
    let wrong = |m: &mut Vec<(String, Value)>| m[0].1 = Value::String("gpt2".to_owned());
    assert!(matches!(made(&a, wrong), Err(TokenizerError::Model(_))));
    let damaged = |pieces: &[(&str, f32, i32)], change: fn(&mut Vec<(String, Value)>)| {
        matches!(made(pieces, change), Err(TokenizerError::Damaged(_)))
    };
    assert!(damaged(&[], |_| ()));
    assert!(damaged(&[("", -1.0, 1)], |_| ()));
    assert!(damaged(&[("a", f32::NAN, 1)], |_| ()));
    assert!(damaged(&[("a", -1.0, 1), ("a", -2.0, 1)], |_| ()));
    assert!(damaged(&[("a", -1.0, 1), ("<0xG1>", 0.0, 6)], |_| ()));
    assert!(damaged(&[(&"a".repeat(513), -1.0, 1)], |_| ()));
    assert!(damaged(&a, |m| m[6].1 = Value::U32(4)));
    assert!(damaged(&a, |m| m[1].1 = Value::Array(Array::of_strings(["a"]))));
}
