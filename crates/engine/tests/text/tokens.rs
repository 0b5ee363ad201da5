//! Tokens and texts: identical with llama.cpp's in both directions.

use serde::Deserialize;
use tintype::tokenizer::{EncodeOptions, Token, Tokenizer};
use tintype::weights::Weights;

use super::{gemma3, golden};

#[derive(Deserialize)]
struct Row {
    text: String,
    ids: Vec<Token>,
    decoded: String,
    /// With control tokens read and the beginning marked, where that is more than `<bos>` and `ids`.
    special: Option<Vec<Token>>,
    decoded_special: Option<String>,
}

const USER: EncodeOptions = EncodeOptions { add_special: false, parse_special: false };
const HOST: EncodeOptions = EncodeOptions { add_special: true, parse_special: true };

fn tokenizer() -> Option<Tokenizer> {
    Some(Tokenizer::from_weights(&Weights::open(gemma3()?).unwrap()).unwrap())
}

#[test]
fn ids_and_texts_are_llama_cpps() {
    let Some(tokenizer) = tokenizer() else { return };
    let rows: Vec<Row> = golden("gemma3_tokenizer");
    assert!(rows.len() > 250);
    let mut stray = 0;
    for row in rows {
        let text = &row.text;
        let ids = tokenizer.encode(text, USER).unwrap();
        assert_eq!(ids, row.ids, "{text:?}");
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), row.decoded, "{text:?}");
        // What users write is never taken for a control token.
        assert!(ids.iter().all(|&id| !tokenizer.bytes(id, false).unwrap().is_empty()), "{text:?}");
        let special = tokenizer.encode(text, HOST).unwrap();
        match row.special {
            Some(wanted) => {
                stray += 1;
                assert_eq!(special, wanted, "{text:?}");
                let decoded = tokenizer.decode(&special, true).unwrap();
                assert_eq!(decoded, row.decoded_special.unwrap(), "{text:?}");
            }
            None => {
                let bos = tokenizer.bos().unwrap();
                assert_eq!(special, [&[bos], &ids[..]].concat(), "{text:?}");
            }
        }
        // Streamed, the text is the same, whatever characters are spread over tokens.
        let mut stream = tokenizer.stream();
        let parts: String = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
        assert_eq!(parts + &stream.finish(), row.decoded, "{text:?}");
    }
    assert!(stray > 5, "no text has control tokens");
}

#[test]
fn bytes_that_are_no_text_come_back() {
    let Some(tokenizer) = tokenizer() else { return };
    let token = |text: &str| tokenizer.token(text).unwrap();
    let ids = tokenizer.encode_bytes(b"a\xFFb\xC3", USER).unwrap();
    assert_eq!(ids, ["a", "<0xFF>", "b", "<0xC3>"].map(token));
    let mut random = fastrand::Rng::with_seed(9);
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        let ids = tokenizer.encode_bytes(&bytes, USER).unwrap();
        assert_eq!(tokenizer.decode_bytes(&ids, false).unwrap(), bytes);
    }
}

#[test]
fn what_ends_a_text_is_known() {
    let Some(tokenizer) = tokenizer() else { return };
    // llama.cpp also ends at "</s>", which in this vocabulary is a piece of text (as HTML writes it).
    let theirs: Vec<Token> = golden("gemma3_ends");
    let text = tokenizer.token("</s>").unwrap();
    let theirs: Vec<_> = theirs.into_iter().filter(|&id| id != text).collect();
    let count = tokenizer.vocabulary_size() as Token;
    let ours: Vec<_> = (0..count).filter(|&id| tokenizer.is_end(id)).collect();
    assert_eq!(ours, theirs);
    assert!(tokenizer.bytes(count, true).is_err());
}
