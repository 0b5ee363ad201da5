//! From the value a pickle built to a list of named, placed tensors.
//! It must not know opcodes or archives.

use super::super::error::{Reason, Result, WeightError};
use super::super::map::Source;
use super::super::tensor::{DIMENSION_LIMIT, NAME_LIMIT, Tensor, bytes_of};
use super::super::value::Value;
use super::node::{Arena, Id, Node, Storage, TensorNode};
use crate::DType;

/// Deepest nesting of containers that is looked into.
const DEPTH_LIMIT: usize = 32;

/// Where a storage's bytes are: (first byte, how many bytes).
pub(super) type Place = (u64, u64);

/// Tensors, and metadata about what was taken and left out.
type Flat = (Vec<Tensor>, Vec<(String, Value)>);

/// Keys under which training frameworks put the weights: the first that is there is taken, and
/// said in the metadata as `pytorch.root`.
const ROOTS: &[&str] =
    &["state_dict", "model_state_dict", "params_ema", "params", "model", "module"];

/// Walks one checkpoint.
pub(super) struct Flatten<'a, 'p, F> {
    pub(super) arena: &'p Arena<'a>,
    pub(super) source: &'p Source,
    /// Finds a storage by its key.
    pub(super) place: F,
    pub(super) tensors: Vec<Tensor>,
    /// Bytes of names and shapes that may yet be made: a pickle can name one dictionary many
    /// times, and dictionaries of such dictionaries grow without bound.
    pub(super) budget: u64,
}

/// The tensors of the checkpoint `root`, and what was left out.
pub(super) fn flatten<'a, F>(
    arena: &Arena<'a>,
    root: Id,
    source: &Source,
    pickle_bytes: u64,
    place: F,
) -> Result<Flat>
where
    F: FnMut(&Storage<'a>) -> Result<Place, Reason>,
{
    let mut metadata = Vec::new();
    let mut start = root;
    if let Some((key, inner)) = ROOTS.iter().find_map(|key| {
        let inner = arena.lookup(root, key)?;
        matches!(arena.get(inner), Node::Dict(_)).then_some((*key, inner))
    }) {
        start = inner;
        let Node::Dict(items) = arena.get(root) else { return Ok((Vec::new(), metadata)) };
        let others = items.iter().filter_map(|(k, _)| arena.text(*k)).filter(|k| *k != key);
        let others = others.take(64).map(|k| k.chars().take(120).collect::<String>());
        let others: Vec<_> = others.collect();
        metadata.push(("pytorch.root".to_owned(), Value::String(key.to_owned())));
        if !others.is_empty() {
            metadata.push(("pytorch.left_out".to_owned(), Value::String(others.join(", "))));
        }
    }
    let budget = pickle_bytes.saturating_mul(16).saturating_add(1 << 16);
    let mut walk = Flatten { arena, source, place, tensors: Vec::new(), budget };
    walk.visit(start, &mut String::new(), 0)?;
    Ok((walk.tensors, metadata))
}

impl<'a, F> Flatten<'a, '_, F>
where
    F: FnMut(&Storage<'a>) -> Result<Place, Reason>,
{
    fn spend(&mut self, bytes: u64) -> Result<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => {
                let what = "the pickle names the same values over and over, a bomb".to_owned();
                Err(WeightError::new(self.source.path(), Reason::Unsupported(what)))
            }
        }
    }

    fn visit(&mut self, id: Id, name: &mut String, depth: usize) -> Result<()> {
        self.spend(1)?;
        if depth > DEPTH_LIMIT {
            let (count, limit) = (depth as u64, DEPTH_LIMIT as u64);
            let reason = Reason::TooMany { what: "containers in containers", count, limit };
            return Err(WeightError::tensor(self.source.path(), name, reason));
        }
        let arena = self.arena;
        match arena.get(id) {
            Node::Tensor(node) => {
                let tensor = self.locate(node, name);
                let tensor =
                    tensor.map_err(|r| WeightError::tensor(self.source.path(), name, r))?;
                self.spend(name.len() as u64 + 8 * tensor.shape.len() as u64)?;
                self.tensors.push(tensor);
                Ok(())
            }
            Node::Dict(items) => {
                for (key, value) in items {
                    let number;
                    let key = match arena.get(*key) {
                        Node::Text(text) => *text,
                        Node::Int(value) => {
                            number = value.to_string();
                            &number
                        }
                        _ => continue,
                    };
                    self.child(*value, name, key, depth)?;
                }
                Ok(())
            }
            Node::List(items) | Node::Tuple(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.child(*item, name, &at.to_string(), depth)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn child(&mut self, id: Id, name: &mut String, key: &str, depth: usize) -> Result<()> {
        self.spend(1)?;
        if !matches!(
            self.arena.get(id),
            Node::Tensor(_) | Node::Dict(_) | Node::List(_) | Node::Tuple(_)
        ) {
            return Ok(());
        }
        let long = name.len();
        let limit = NAME_LIMIT;
        if (long + key.len()) as u64 >= limit {
            let reason = Reason::TooMany { what: "bytes of name", count: limit + 1, limit };
            return Err(WeightError::tensor(self.source.path(), name, reason));
        }
        if long > 0 {
            name.push('.');
        }
        name.push_str(key);
        let result = self.visit(id, name, depth + 1);
        name.truncate(long);
        result
    }

    fn locate(&mut self, node: &TensorNode, name: &str) -> Result<Tensor, Reason> {
        let Node::Storage(storage) = self.arena.get(node.storage) else {
            return Err(malformed("it has no storage"));
        };
        let sizes = [node.size, node.stride].map(|id| {
            let few = self.arena.tuple(id).is_some_and(|t| t.len() <= DIMENSION_LIMIT);
            few.then(|| self.arena.wholes(id)).flatten()
        });
        let [Some(shape), Some(strides)] = sizes else {
            return Err(malformed("its size or strides are no short list of whole numbers"));
        };
        if shape.len() != strides.len() {
            return Err(malformed("it has not as many strides as dimensions"));
        }
        let dtype = node.dtype.or(storage.dtype);
        let dtype = dtype.ok_or_else(|| malformed("neither it nor its storage has a type"))?;
        let bytes = bytes_of(dtype, &shape)?;
        let each = dtype.block_bytes();
        let (start, available) = (self.place)(storage)?;
        let claimed = storage.count.checked_mul(storage.dtype.map_or(1, DType::block_bytes));
        let room = claimed.filter(|claimed| *claimed <= available).ok_or(Reason::OutOfRange {
            start,
            bytes: claimed.unwrap_or(u64::MAX),
            end: start + available,
        })?;
        let first = storage.skip.checked_add(node.offset).and_then(|n| n.checked_mul(each));
        let reach = reach(&shape, &strides);
        let end = reach.and_then(|r| r.checked_mul(each)).and_then(|r| r.checked_add(first?));
        let (Some(first), Some(_)) = (first, end.filter(|end| *end <= room)) else {
            let (start, end) = (start.saturating_add(first.unwrap_or(room)), start + room);
            return Err(Reason::OutOfRange { start, bytes, end });
        };
        if bytes > room {
            let what = "it repeats its storage many times over; save it after .contiguous()";
            return Err(Reason::Unsupported(what.to_owned()));
        }
        let strides = (!is_row_major(&shape, &strides)).then_some(strides);
        Ok(Tensor {
            name: name.to_owned(),
            dtype,
            shape,
            source: self.source.clone(),
            offset: start + first,
            strides,
            scale: None,
        })
    }
}

fn malformed(what: &str) -> Reason {
    Reason::Malformed { at: 0, what: format!("pickle: {what}") }
}

/// Elements from the first to one past the last, 0 for an empty tensor.
fn reach(shape: &[u64], strides: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let steps = shape.iter().zip(strides).try_fold(0u64, |sum, (dimension, stride)| {
        sum.checked_add((dimension - 1).checked_mul(*stride)?)
    })?;
    steps.checked_add(1)
}

fn is_row_major(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = 1u64;
    shape.iter().zip(strides).rev().all(|(dimension, stride)| {
        // The stride of an axis of one is never used.
        let fits = *dimension <= 1 || *stride == expected;
        expected = expected.saturating_mul(*dimension);
        fits
    }) || shape.contains(&0)
}
