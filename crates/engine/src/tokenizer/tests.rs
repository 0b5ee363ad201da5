//! Against SentencePiece (`cargo xtask golden`), and against vocabularies that are damaged. Language
//! models' tokenizers meet llama.cpp in `tests/text`.

use serde::Deserialize;

use super::{EncodeOptions, Tokenizer, TokenizerError, Unigram};
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

/// A vocabulary of pieces after `<pad>`, `</s>` and `<unk>`, changed by `change`.
fn vocabulary(
    model: &str,
    pieces: &[(&str, f32, i32)],
    change: impl FnOnce(&mut Vec<(String, Value)>),
) -> Weights {
    let all: Vec<_> = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2)]
        .iter()
        .chain(pieces)
        .copied()
        .collect();
    let scores: Vec<_> = all.iter().map(|p| Value::F32(p.1)).collect();
    let kinds: Vec<_> = all.iter().map(|p| Value::I32(p.2)).collect();
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let mut metadata = vec![
        (key("model"), Value::String(model.to_owned())),
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
    Weights::from_parts(parts).unwrap()
}

fn made(
    pieces: &[(&str, f32, i32)],
    change: impl FnOnce(&mut Vec<(String, Value)>),
) -> Result<Unigram, TokenizerError> {
    Unigram::from_weights(&vocabulary("t5", pieces, change))
}

fn merging(
    pieces: &[(&str, f32, i32)],
    change: impl FnOnce(&mut Vec<(String, Value)>),
) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_weights(&vocabulary("llama", pieces, change))
}

const PLAIN: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };

#[test]
fn better_merges_go_first_and_words_begin_with_a_space() {
    // Ids from 3: "ab" is worth less than "bc", so "abc" is "a" and "bc".
    let pieces = [("\u{2581}", 0.0, 1), ("a", 0.0, 1), ("b", 0.0, 1), ("c", 0.0, 1)];
    let merges = [("ab", -2.0, 1), ("bc", -1.0, 1), ("\u{2581}a", -3.0, 1), ("<x>", 0.0, 3)];
    let all = [&pieces[..], &merges[..]].concat();
    let tokenizer = merging(&all, |_| ()).unwrap();
    let encode = |text: &str, options| tokenizer.encode(text, options).unwrap();
    assert_eq!(encode("abc", PLAIN), [9, 8]);
    assert_eq!(encode(" ab", PLAIN), [3, 3, 7]);
    // A control token only where it is asked for; a word behind it begins anew.
    let parsed = EncodeOptions { parse_special: true, ..PLAIN };
    assert_eq!(encode("a<x>a</s>", parsed), [9, 10, 9, 1]);
    assert!(matches!(tokenizer.encode("a<x>a", PLAIN), Err(TokenizerError::NoTokenFor(_))));
    assert_eq!(tokenizer.decode(&encode("abc ab", PLAIN), false).unwrap(), "abc ab");
    // The longer of two texts that are one token each, wherever it stands.
    let rivals = [("ab", 0.0, 4), ("bcc", 0.0, 4), ("d", 0.0, 1)];
    let tokenizer = merging(&[&pieces[..], &rivals[..]].concat(), |_| ()).unwrap();
    assert_eq!(tokenizer.encode("abcc", PLAIN).unwrap(), [3, 4, 8]);
    assert_eq!(tokenizer.encode("bccab", PLAIN).unwrap(), [8, 7]);
}

#[test]
fn damaged_vocabularies_of_language_models_are_refused() {
    let a = [("a", -1.0, 1)];
    assert!(merging(&a, |_| ()).is_ok());
    for at in 0..3 {
        assert!(matches!(merging(&a, |m| drop(m.remove(at))), Err(TokenizerError::Key { .. })));
    }
    let wrong = |m: &mut Vec<(String, Value)>| m[0].1 = Value::String("rwkv".to_owned());
    assert!(matches!(merging(&a, wrong), Err(TokenizerError::Model { .. })));
    let damaged = |change: fn(&mut Vec<(String, Value)>)| {
        matches!(merging(&a, change), Err(TokenizerError::Damaged(_)))
    };
    assert!(damaged(|m| m[5].1 = Value::U32(4)));
    assert!(damaged(|m| m[1].1 = Value::Array(Array::of_strings(["a"]))));
    assert!(damaged(|m| m[3].1 = Value::Array(Array::of_strings(["a", "b", "c", "d"]))));
    assert!(matches!(merging(&[("a", f32::NAN, 1)], |_| ()), Err(TokenizerError::Damaged(_))));
    assert!(matches!(merging(&[("a", 0.0, 7)], |_| ()), Err(TokenizerError::Damaged(_))));
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
    assert!(matches!(made(&a, wrong), Err(TokenizerError::Model { .. })));
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
