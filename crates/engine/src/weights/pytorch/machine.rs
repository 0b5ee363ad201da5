//! A pickle machine that builds tensors and plain containers and can do nothing else: it has no
//! call, no import and no attribute. It must not know where storages lie.
//! Opcodes: Python's pickletools.

use std::collections::HashMap;

use super::super::cursor::Cursor;
use super::super::error::{Reason, Result};
use super::build;
use super::node::{Arena, Id, Node};

/// One pickle being read.
pub(super) struct Machine<'a, 'c> {
    pub(super) from: &'c mut Cursor<'a>,
    pub(super) arena: Arena<'a>,
    stack: Vec<Id>,
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    /// Items that calls have copied from one container into another.
    copied: u64,
}

/// Reads the pickle at the cursor, which is left after it. Values: the arena, and the result.
pub(super) fn run<'a>(from: &mut Cursor<'a>, limit: u64) -> Result<(Arena<'a>, Id)> {
    let (start, end) = (from.at(), from.at().saturating_add(limit));
    let mut machine = Machine {
        from,
        arena: Arena(Vec::new()),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        copied: 0,
    };
    loop {
        let at = machine.from.at();
        if at >= end {
            let what = "bytes of pickle";
            return Err(machine.from.fail(Reason::TooMany { what, count: at - start + 1, limit }));
        }
        // A call may copy a container. Copying one many times is how a pickle would grow.
        if machine.copied > at - start {
            return Err(machine.bad(at, "it copies more than it holds, a bomb"));
        }
        let opcode = machine.from.u8("an opcode")?;
        if opcode == b'.' {
            let result = machine.pop()?;
            return Ok((machine.arena, result));
        }
        machine.step(opcode, at)?;
    }
}

impl<'a> Machine<'a, '_> {
    fn step(&mut self, opcode: u8, at: u64) -> Result<()> {
        match opcode {
            0x80 => match self.from.u8("the protocol")? {
                2..=5 => Ok(()),
                other => Err(self.bad(at, format!("pickle protocol {other} is not read"))),
            },
            0x95 => self.from.u64("a frame").map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop().map(drop),
            b'1' => self.pop_mark().map(drop),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
                Ok(())
            }
            b'N' => self.push(Node::Nothing),
            0x88 => self.push(Node::Bool(true)),
            0x89 => self.push(Node::Bool(false)),
            b'J' => {
                let value = self.from.u32("an integer")? as i32;
                self.push(Node::Int(value.into()))
            }
            b'K' => {
                let value = self.from.u8("an integer")?;
                self.push(Node::Int(value.into()))
            }
            b'M' => {
                let value = self.from.u16("an integer")?;
                self.push(Node::Int(value.into()))
            }
            0x8a => {
                let count = self.from.u8("an integer")?;
                self.long(count.into())
            }
            0x8b => {
                let count = self.from.u32("an integer")?;
                self.long(count.into())
            }
            b'G' => {
                self.from.take(8, "a number")?;
                self.push(Node::Float)
            }
            b'X' | b'T' => {
                let count = self.from.u32("a text")?;
                self.text(count.into(), opcode == b'T')
            }
            0x8c | b'U' => {
                let count = self.from.u8("a text")?;
                self.text(count.into(), opcode == b'U')
            }
            0x8d => {
                let count = self.from.u64("a text")?;
                self.text(count, false)
            }
            b'B' => {
                let count = self.from.u32("bytes")?;
                self.bytes(count.into())
            }
            b'C' => {
                let count = self.from.u8("bytes")?;
                self.bytes(count.into())
            }
            0x8e | 0x96 => {
                let count = self.from.u64("bytes")?;
                self.bytes(count)
            }
            b')' => self.push(Node::Tuple(Vec::new())),
            0x85..=0x87 => {
                let items = self.pop_many(usize::from(opcode - 0x84))?;
                self.push(Node::Tuple(items))
            }
            b't' => {
                let items = self.pop_mark()?;
                self.push(Node::Tuple(items))
            }
            b']' | 0x8f => self.push(Node::List(Vec::new())),
            b'l' | 0x91 => {
                let items = self.pop_mark()?;
                self.push(Node::List(items))
            }
            b'a' => {
                let items = self.pop_many(1)?;
                self.append(at, &items)
            }
            b'e' | 0x90 => {
                let items = self.pop_mark()?;
                self.append(at, &items)
            }
            b'}' => self.push(Node::Dict(Vec::new())),
            b'd' => {
                let items = self.pop_mark()?;
                self.push(Node::Dict(Vec::new()))?;
                self.set_items(at, &items)
            }
            b's' => {
                let items = self.pop_many(2)?;
                self.set_items(at, &items)
            }
            b'u' => {
                let items = self.pop_mark()?;
                self.set_items(at, &items)
            }
            b'h' => {
                let slot = self.from.u8("a memo slot")?;
                self.recall(at, slot.into())
            }
            b'j' => {
                let slot = self.from.u32("a memo slot")?;
                self.recall(at, slot)
            }
            b'q' => {
                let slot = self.from.u8("a memo slot")?;
                self.remember(slot.into())
            }
            b'r' => {
                let slot = self.from.u32("a memo slot")?;
                self.remember(slot)
            }
            0x94 => self.remember(self.memo.len() as u32),
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Node::Global(module, name))
            }
            0x93 => {
                let items = self.pop_many(2)?;
                match (self.arena.text(items[0]), self.arena.text(items[1])) {
                    (Some(module), Some(name)) => self.push(Node::Global(module, name)),
                    _ => Err(self.bad(at, "a global whose name is no text")),
                }
            }
            b'R' | 0x81 => {
                let items = self.pop_many(2)?;
                let built = build::call(&self.arena, self.from, at, items[0], items[1])?;
                self.copied += match &built {
                    Node::Dict(items) => items.len() as u64,
                    Node::Tuple(items) | Node::List(items) => items.len() as u64,
                    _ => 0,
                };
                self.push(built)
            }
            b'b' => {
                self.pop()?;
                let target = self.top()?;
                build::set_state(&self.arena, self.from, at, target)
            }
            b'Q' => {
                let id = self.pop()?;
                let storage = build::storage(&self.arena, self.from, at, id)?;
                self.push(storage)
            }
            b'i' | b'o' | 0x92 => {
                let name = "an instance of a class".to_owned();
                Err(self.from.fail(Reason::Code { at, name }))
            }
            0x82..=0x84 => {
                let name = "a registered extension".to_owned();
                Err(self.from.fail(Reason::Code { at, name }))
            }
            other => {
                Err(self.bad(at, format!("opcode {other:#04x} is not one that PyTorch writes")))
            }
        }
    }

    pub(super) fn bad(&self, at: u64, what: impl Into<String>) -> super::super::WeightError {
        self.from.fail(Reason::Malformed { at, what: format!("pickle: {}", what.into()) })
    }

    fn push(&mut self, node: Node<'a>) -> Result<()> {
        // A pickle is at most 64 MiB and makes one value a byte, so this fits 32 bits.
        let id = self.arena.0.len() as Id;
        self.arena.0.push(node);
        self.stack.push(id);
        Ok(())
    }

    /// Where the values above the last mark begin; values below it cannot be popped past it.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Id> {
        let at = self.from.at();
        if self.stack.len() <= self.floor() {
            return Err(self.bad(at, "it takes a value that is not there"));
        }
        self.stack.pop().ok_or_else(|| self.bad(at, "it takes a value that is not there"))
    }

    fn top(&self) -> Result<Id> {
        let top = (self.stack.len() > self.floor()).then(|| self.stack.last().copied()).flatten();
        top.ok_or_else(|| self.bad(self.from.at(), "it takes a value that is not there"))
    }

    fn pop_many(&mut self, count: usize) -> Result<Vec<Id>> {
        if self.stack.len() < self.floor() + count {
            return Err(self.bad(self.from.at(), "it takes values that are not there"));
        }
        Ok(self.stack.split_off(self.stack.len() - count))
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => Err(self.bad(self.from.at(), "it goes back to a mark that is not there")),
        }
    }

    fn long(&mut self, count: u64) -> Result<()> {
        let bytes = self.from.take(count, "an integer")?;
        if bytes.len() > 8 {
            return self.push(Node::Long(bytes));
        }
        // Sign-extended from the last byte.
        let fill = if bytes.last().is_some_and(|b| b & 0x80 != 0) { 0xFF } else { 0 };
        let mut wide = [fill; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        self.push(Node::Int(i64::from_le_bytes(wide)))
    }

    /// Text; what Python 2 wrote may be in any encoding, and is then kept as bytes.
    fn text(&mut self, count: u64, python2: bool) -> Result<()> {
        let at = self.from.at();
        match std::str::from_utf8(self.from.take(count, "a text")?) {
            Ok(text) => self.push(Node::Text(text)),
            Err(_) if python2 => self.push(Node::Bytes),
            Err(_) => Err(self.bad(at, "a text is not UTF-8")),
        }
    }

    fn bytes(&mut self, count: u64) -> Result<()> {
        self.from.take(count, "bytes")?;
        self.push(Node::Bytes)
    }

    /// A name that ends with its line.
    fn line(&mut self) -> Result<&'a str> {
        const LONGEST: u64 = 1024;
        let at = self.from.at();
        let room = LONGEST.min(self.from.left());
        let bytes = self.from.take(room, "a name")?;
        let end = bytes.iter().position(|b| *b == b'\n');
        let end = end.ok_or_else(|| self.bad(at, "a name does not end"))?;
        self.from.seek(at + end as u64 + 1);
        std::str::from_utf8(&bytes[..end]).map_err(|_| self.bad(at, "a name is not UTF-8"))
    }

    fn append(&mut self, at: u64, items: &[Id]) -> Result<()> {
        let target = self.top()?;
        match &mut self.arena.0[target as usize] {
            Node::List(list) => list.extend_from_slice(items),
            _ => return Err(self.bad(at, "it appends to something that is no list")),
        }
        Ok(())
    }

    fn set_items(&mut self, at: u64, items: &[Id]) -> Result<()> {
        let target = self.top()?;
        if !items.len().is_multiple_of(2) {
            return Err(self.bad(at, "a key without a value"));
        }
        match &mut self.arena.0[target as usize] {
            Node::Dict(dict) => dict.extend(items.chunks_exact(2).map(|kv| (kv[0], kv[1]))),
            _ => return Err(self.bad(at, "it sets items of something that is no dictionary")),
        }
        Ok(())
    }

    fn remember(&mut self, slot: u32) -> Result<()> {
        let top = self.top()?;
        self.memo.insert(slot, top);
        Ok(())
    }

    fn recall(&mut self, at: u64, slot: u32) -> Result<()> {
        match self.memo.get(&slot) {
            Some(id) => {
                self.stack.push(*id);
                Ok(())
            }
            None => Err(self.bad(at, format!("memo slot {slot} is empty"))),
        }
    }
}
