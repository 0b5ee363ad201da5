//! Tensors as a tree of the words in their names, with numbered parts of one shape as one branch.
//! It must not print.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::{Tensor, Weights};

/// A word of tensor names, with everything under it.
#[derive(Debug, Clone, Serialize)]
pub struct Branch {
    /// The word; `0..17` where numbered parts look alike.
    pub name: String,
    /// What it and everything under it holds.
    #[serde(flatten)]
    pub amount: Amount,
    /// Types and shape, if it is a tensor.
    pub tensor: Option<Leaf>,
    /// What comes after it.
    pub branches: Vec<Branch>,
}

/// How much a branch holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Tensors.
    pub tensors: usize,
    /// Values in them.
    pub parameters: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Amount {
    fn of(tensor: &Tensor) -> Self {
        Self { tensors: 1, parameters: tensor.elements(), bytes: tensor.byte_len() }
    }

    fn add(&mut self, other: Self) {
        self.tensors += other.tensors;
        self.parameters = self.parameters.saturating_add(other.parameters);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// A tensor at the end of a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leaf {
    /// The type's name; several, where numbered parts of one shape are of different types.
    pub dtypes: Vec<&'static str>,
    /// The dimensions, slowest first.
    pub shape: Vec<u64>,
}

/// Deepest tree; the rest of a longer name stays one word.
const DEPTH_LIMIT: usize = 16;

/// Builds the tree; `fold` joins numbered parts that look alike.
pub fn tree(weights: &Weights, fold: bool) -> Vec<Branch> {
    let mut root = Node::default();
    for tensor in weights.tensors() {
        let mut node = &mut root;
        for word in tensor.name().splitn(DEPTH_LIMIT, '.') {
            node.amount.add(Amount::of(tensor));
            let place = *node.places.entry(word).or_insert_with(|| {
                node.children.push((word, Node::default()));
                node.children.len() - 1
            });
            node = &mut node.children[place].1;
        }
        node.amount.add(Amount::of(tensor));
        node.leaf =
            Some(Leaf { dtypes: vec![tensor.dtype().name()], shape: tensor.shape().to_vec() });
    }
    branches(root, fold)
}

#[derive(Default)]
struct Node<'w> {
    amount: Amount,
    leaf: Option<Leaf>,
    /// Children in file order, and where each word is among them.
    children: Vec<(&'w str, Node<'w>)>,
    places: BTreeMap<&'w str, usize>,
}

fn branches(node: Node<'_>, fold: bool) -> Vec<Branch> {
    let mut done: Vec<(Branch, Option<(u64, u64)>)> = Vec::new();
    let mut children = node.children;
    // Layers are numbered; files hold them in any order.
    if children.iter().all(|(word, _)| word.parse::<u64>().is_ok()) {
        children.sort_by_key(|(word, _)| word.parse::<u64>().unwrap_or(u64::MAX));
    }
    for (word, child) in children {
        let (amount, tensor) = (child.amount, child.leaf.clone());
        let branches = branches(child, fold);
        let branch = Branch { name: word.to_owned(), amount, tensor, branches };
        let number = word.parse::<u64>().ok();
        if let (true, Some(number), Some((last, Some((first, end))))) =
            (fold, number, done.last_mut())
            && end.checked_add(1) == Some(number)
            && alike(last, &branch)
        {
            *end = number;
            last.name = format!("{first}..{number}");
            merge(last, &branch);
            continue;
        }
        done.push((branch, number.map(|n| (n, n))));
    }
    done.into_iter().map(|(branch, _)| branch).collect()
}

/// Whether two branches have the same words and shapes under them.
fn alike(a: &Branch, b: &Branch) -> bool {
    a.tensor.as_ref().map(|leaf| &leaf.shape) == b.tensor.as_ref().map(|leaf| &leaf.shape)
        && a.branches.len() == b.branches.len()
        && a.branches.iter().zip(&b.branches).all(|(a, b)| a.name == b.name && alike(a, b))
}

/// Adds a branch to another that is [`alike`].
fn merge(to: &mut Branch, from: &Branch) {
    to.amount.add(from.amount);
    if let (Some(to), Some(from)) = (&mut to.tensor, &from.tensor) {
        for dtype in &from.dtypes {
            if !to.dtypes.contains(dtype) {
                to.dtypes.push(dtype);
            }
        }
    }
    for (to, from) in to.branches.iter_mut().zip(&from.branches) {
        merge(to, from);
    }
}
