//! `bit`: the operations of LuaBitOp (bitop.luajit.org) on numbers of 32 bits with a sign.

use std::ffi::{CStr, c_int};

use crate::stack::{Body, Fail, Stack};

const FUNCTIONS: [(&CStr, Body); 12] = [
    (c"tobit", |stack| push(stack, bits(stack, 1, "tobit")?)),
    (c"bnot", |stack| push(stack, !bits(stack, 1, "bnot")?)),
    (c"band", |stack| fold(stack, "band", |a, b| a & b)),
    (c"bor", |stack| fold(stack, "bor", |a, b| a | b)),
    (c"bxor", |stack| fold(stack, "bxor", |a, b| a ^ b)),
    (c"lshift", |stack| shift(stack, "lshift", |a, n| a << n)),
    (c"rshift", |stack| shift(stack, "rshift", |a, n| a >> n)),
    (c"arshift", |stack| {
        shift(stack, "arshift", |a, n| (a.cast_signed() >> n).cast_unsigned())
    }),
    (c"rol", |stack| shift(stack, "rol", u32::rotate_left)),
    (c"ror", |stack| shift(stack, "ror", u32::rotate_right)),
    (c"bswap", |stack| push(stack, bits(stack, 1, "bswap")?.swap_bytes())),
    (c"tohex", tohex),
];

/// Pushes the table.
pub(crate) fn push_bit(stack: &Stack) {
    stack.new_table(0, FUNCTIONS.len());
    for (name, function) in FUNCTIONS {
        stack.push_function(function, name, 0);
        stack.set_field(-2, name);
    }
}

/// The number rounded to an integer, its lowest 32 bits: adding 2^52 + 2^51 leaves them at the end of the mantissa.
fn bits(stack: &Stack, index: c_int, function: &str) -> Result<u32, Fail> {
    let number = stack.check_number(index, function)?;
    Ok((number + 6_755_399_441_055_744.0).to_bits() as u32)
}

fn push(stack: &Stack, value: u32) -> Result<c_int, Fail> {
    stack.push_number(f64::from(value.cast_signed()));
    Ok(1)
}

fn fold(stack: &Stack, function: &str, combine: fn(u32, u32) -> u32) -> Result<c_int, Fail> {
    let mut value = bits(stack, 1, function)?;
    for index in 2..=stack.top() {
        value = combine(value, bits(stack, index, function)?);
    }
    push(stack, value)
}

fn shift(stack: &Stack, function: &str, shift: fn(u32, u32) -> u32) -> Result<c_int, Fail> {
    let value = bits(stack, 1, function)?;
    let count = bits(stack, 2, function)? & 31;
    push(stack, shift(value, count))
}

/// `n` hexadecimal digits, 8 if not given; upper case if negative.
fn tohex(stack: &Stack) -> Result<c_int, Fail> {
    let value = bits(stack, 1, "tohex")?;
    let digits = if stack.top() < 2 {
        8
    } else {
        bits(stack, 2, "tohex")?.cast_signed()
    };
    let text = if digits < 0 {
        format!("{value:08X}")
    } else {
        format!("{value:08x}")
    };
    let shown = digits.unsigned_abs().min(8) as usize;
    stack.push_bytes(&text.as_bytes()[8 - shown..]);
    Ok(1)
}
