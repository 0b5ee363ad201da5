//! What a pickle may build, as one list of names; every other name that it calls is refused.
//! It must not know opcodes.

use super::super::cursor::Cursor;
use super::super::error::{Reason, Result};
use super::TYPES;
use super::node::{Arena, Id, Node, Storage, TensorNode};
use crate::DType;

/// Applies a named callable to its arguments, if it is one of those that only hold data.
pub(super) fn call<'a>(
    arena: &Arena<'a>,
    from: &Cursor<'_>,
    at: u64,
    callable: Id,
    arguments: Id,
) -> Result<Node<'a>> {
    let bad = |what: &str| from.fail(Reason::Malformed { at, what: format!("pickle: {what}") });
    let Node::Global(module, name) = *arena.get(callable) else {
        let name = "something that is not a name".to_owned();
        return Err(from.fail(Reason::Code { at, name }));
    };
    let Node::Tuple(items) = arena.get(arguments) else {
        return Err(bad("arguments that are no tuple"));
    };
    match (module, name, &items[..]) {
        ("torch._utils", "_rebuild_tensor", [storage, offset, size, stride])
        | ("torch._utils", "_rebuild_tensor_v2", [storage, offset, size, stride, ..]) => {
            tensor(arena, (*storage, *offset, *size, *stride), None)
                .ok_or_else(|| bad("a tensor whose arguments are no storage, offset and sizes"))
        }
        (
            "torch._utils",
            "_rebuild_tensor_v3",
            [storage, offset, size, stride, _, _, dtype, ..],
        ) => {
            let Node::Global("torch", name) = *arena.get(*dtype) else {
                return Err(bad("a tensor whose type is no type"));
            };
            let dtype = TYPES.iter().find(|(n, ..)| *n == name).map(|(.., d)| *d);
            let dtype =
                dtype.ok_or_else(|| from.fail(Reason::UnknownDType(format!("torch.{name}"))))?;
            tensor(arena, (*storage, *offset, *size, *stride), Some(dtype))
                .ok_or_else(|| bad("a tensor whose arguments are no storage, offset and sizes"))
        }
        ("torch._utils", "_rebuild_parameter", [data, ..])
        | ("torch._utils", "_rebuild_parameter_with_state", [data, ..]) => match arena.get(*data) {
            Node::Tensor(tensor) => Ok(Node::Tensor(*tensor)),
            _ => Err(bad("a parameter that is no tensor")),
        },
        // A subclass of a tensor: the function that rebuilds it, the class, its arguments.
        ("torch._tensor", "_rebuild_from_type_v2", [function, _, arguments, ..]) => {
            match arena.get(*function) {
                Node::Global("torch._utils", _) => call(arena, from, at, *function, *arguments),
                _ => Err(bad("a tensor subclass that is rebuilt by something else")),
            }
        }
        ("collections", "OrderedDict", []) | ("collections", "defaultdict", [] | [_]) => {
            Ok(Node::Dict(Vec::new()))
        }
        ("collections", "OrderedDict", [pairs]) | ("builtins" | "__builtin__", "dict", [pairs]) => {
            dict(arena, *pairs).ok_or_else(|| bad("a dictionary of something else than pairs"))
        }
        ("builtins" | "__builtin__", "set" | "frozenset" | "list" | "tuple", [items])
        | ("torch", "Size", [items]) => match arena.tuple(*items) {
            Some(items) => Ok(Node::Tuple(items.to_vec())),
            None => Err(bad("a container of something that is none")),
        },
        ("torch", "device", _)
        | ("_codecs", "encode", _)
        | ("numpy", "dtype", _)
        | ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar", _)
        | ("datetime", "datetime" | "date" | "timedelta", _) => Ok(Node::Nothing),
        ("torch._utils", other, _) if other.starts_with("_rebuild_") => {
            let what = format!("torch._utils.{other}: only dense tensors are read");
            Err(from.fail(Reason::Unsupported(what)))
        }
        _ => Err(from.fail(Reason::Code { at, name: format!("{module}.{name}") })),
    }
}

fn tensor<'a>(
    arena: &Arena<'a>,
    (storage, offset, size, stride): (Id, Id, Id, Id),
    dtype: Option<DType>,
) -> Option<Node<'a>> {
    let Node::Storage(_) = arena.get(storage) else { return None };
    let offset = arena.whole(offset)?;
    arena.tuple(size)?;
    arena.tuple(stride)?;
    Some(Node::Tensor(TensorNode { storage, offset, size, stride, dtype }))
}

fn dict<'a>(arena: &Arena<'a>, pairs: Id) -> Option<Node<'a>> {
    if let Node::Dict(items) = arena.get(pairs) {
        return Some(Node::Dict(items.clone()));
    }
    let pair = |id: &Id| match arena.tuple(*id)? {
        [key, value] => Some((*key, *value)),
        _ => None,
    };
    arena.tuple(pairs)?.iter().map(pair).collect::<Option<Vec<_>>>().map(Node::Dict)
}

/// State set on a value: attributes of dictionaries (PyTorch's `_metadata`) are dropped.
pub(super) fn set_state(arena: &Arena<'_>, from: &Cursor<'_>, at: u64, target: Id) -> Result<()> {
    match arena.get(target) {
        Node::Dict(_) | Node::Nothing => Ok(()),
        Node::Global(module, name) => {
            Err(from.fail(Reason::Code { at, name: format!("{module}.{name}") }))
        }
        _ => {
            let what = "pickle: state for something that has none".to_owned();
            Err(from.fail(Reason::Malformed { at, what }))
        }
    }
}

/// A persistent id: `("storage", type, key, place, count[, view])`.
pub(super) fn storage<'a>(
    arena: &Arena<'a>,
    from: &Cursor<'_>,
    at: u64,
    id: Id,
) -> Result<Node<'a>> {
    let bad = |what: &str| from.fail(Reason::Malformed { at, what: format!("pickle: {what}") });
    let items = arena.tuple(id).unwrap_or_default();
    let [kind, class, key, _, count, rest @ ..] = items else {
        return Err(bad("a persistent id that is no storage"));
    };
    let Node::Global(module, class) = *arena.get(*class) else {
        return Err(bad("a storage whose type is no type"));
    };
    let dtype = match (module, class) {
        ("torch.storage" | "torch", "UntypedStorage") => None,
        ("torch", class) => {
            let known = TYPES.iter().find(|(_, storage, _)| *storage == Some(class));
            let unknown = || from.fail(Reason::UnknownDType(format!("torch.{class}")));
            Some(known.ok_or_else(unknown)?.2)
        }
        _ => return Err(from.fail(Reason::Code { at, name: format!("{module}.{class}") })),
    };
    let skip = match rest.first().map(|view| (arena.get(*view), *view)) {
        None | Some((Node::Nothing, _)) => Some(0),
        Some((_, view)) => match arena.tuple(view) {
            Some([_, skip, _]) => arena.whole(*skip),
            _ => None,
        },
    };
    match (arena.text(*kind), arena.text(*key), arena.whole(*count), skip) {
        (Some("storage"), Some(key), Some(count), Some(skip)) => {
            Ok(Node::Storage(Storage { dtype, key, count, skip }))
        }
        _ => Err(bad("a storage without a name and a length")),
    }
}
