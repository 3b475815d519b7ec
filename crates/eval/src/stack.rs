//! The Lua stack of one thread, as a C function or the engine sees it.
//!
//! mlua's own API pays for a registry reference and a protected call with each value that crosses; a rate limiter's
//! script crosses a dozen times in a few microseconds. So this crate uses the C API that mlua vendors, and all of it
//! through [`Stack`]: every raw call of the crate is in this file, `shared.rs`, `engine.rs` and `run.rs`.
//!
//! Luau reports errors as C++ exceptions. They pass through the Rust frames between a C function and the call that
//! failed, running destructors, which needs `panic = "unwind"`: with `abort` the process ends at the first of them.

use std::ffi::{CStr, c_int, c_void};

use mlua::ffi;

use crate::shared::Shared;

pub(crate) type State = *mut ffi::lua_State;

/// A function that Lua can call. Its result says how many values on the top of the stack it returns.
pub(crate) type Body = fn(&Stack) -> Result<c_int, Fail>;

/// Calls a function of the C API on this stack's thread.
macro_rules! api {
    ($function:ident($stack:expr $(, $argument:expr)*)) => {{
        // SAFETY: who made the Stack promised that its thread lives. Arguments that are pointers come from references
        // or constants, and indices are within the frame: each method says what it needs.
        unsafe { ffi::$function($stack.0 $(, $argument)*) }
    }};
}

/// Why a C function fails.
pub(crate) enum Fail {
    /// A message, prefixed with the position of the caller, as `luaL_error` does.
    Text(Vec<u8>),
    /// An error of the `redis` table: a table with the field `err`.
    Redis(Vec<u8>),
    /// The run has to end; nothing may catch this.
    Killed,
}

impl Fail {
    pub(crate) fn text(message: impl Into<Vec<u8>>) -> Self {
        Fail::Text(message.into())
    }

    /// The message of `luaL_argerror`.
    pub(crate) fn argument(index: c_int, function: &str, message: &str) -> Self {
        Fail::Text(format!("bad argument #{index} to '{function}' ({message})").into_bytes())
    }

    fn push(self, stack: &Stack) {
        // The caller's arguments may fill the frame.
        stack.require(4);
        match self {
            Fail::Text(message) => {
                api!(luaL_where(stack, 1));
                stack.push_bytes(&message);
                api!(lua_concat(stack, 2));
            }
            Fail::Redis(message) => stack.push_field_table(c"err", &message),
            Fail::Killed => stack.push_killed(),
        }
    }
}

/// One thread of Luau.
#[derive(Clone, Copy)]
pub(crate) struct Stack(State);

impl Stack {
    /// # Safety
    /// `state` is a thread that lives as long as the result is used, in a VM whose callbacks' user data is a
    /// [`Shared`].
    pub(crate) unsafe fn new(state: State) -> Self {
        Stack(state)
    }

    pub(crate) fn state(&self) -> State {
        self.0
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: `new` was promised that the user data is a Shared, which the engine keeps until the VM is closed.
        unsafe { &*(*ffi::lua_callbacks(self.0)).userdata.cast::<Shared>() }
    }

    pub(crate) fn top(&self) -> c_int {
        api!(lua_gettop(self))
    }

    pub(crate) fn set_top(&self, top: c_int) {
        api!(lua_settop(self, top));
    }

    pub(crate) fn pop(&self, count: c_int) {
        self.set_top(-count - 1);
    }

    /// Makes room for `count` more values, or raises "stack overflow".
    pub(crate) fn require(&self, count: c_int) {
        api!(luaL_checkstack_(self, count, c"too many values".as_ptr()));
    }

    /// Makes room for `count` more values if the stack may grow so much.
    pub(crate) fn has_room(&self, count: c_int) -> bool {
        api!(lua_checkstack(self, count)) != 0
    }

    pub(crate) fn kind(&self, index: c_int) -> c_int {
        api!(lua_type(self, index))
    }

    /// The name of the type, as in messages.
    pub(crate) fn kind_name(&self, index: c_int) -> &'static str {
        match self.kind(index) {
            ffi::LUA_TNONE => "no value",
            ffi::LUA_TNIL => "nil",
            ffi::LUA_TBOOLEAN => "boolean",
            ffi::LUA_TNUMBER => "number",
            ffi::LUA_TSTRING => "string",
            ffi::LUA_TTABLE => "table",
            ffi::LUA_TFUNCTION => "function",
            ffi::LUA_TTHREAD => "thread",
            _ => "userdata",
        }
    }

    pub(crate) fn is_table(&self, index: c_int) -> bool {
        self.kind(index) == ffi::LUA_TTABLE
    }

    /// The bytes of a string; of nothing else.
    pub(crate) fn string(&self, index: c_int) -> Option<&[u8]> {
        let mut len = 0;
        let start = api!(lua_tolstringatom(self, index, &raw mut len, std::ptr::null_mut()));
        // SAFETY: as in `bytes_at`; of what is no string there is no start.
        (!start.is_null()).then(|| unsafe { std::slice::from_raw_parts(start.cast(), len) })
    }

    /// The bytes of a string, or of a number, which becomes a string on the stack.
    pub(crate) fn bytes(&self, index: c_int) -> Option<&[u8]> {
        matches!(self.kind(index), ffi::LUA_TSTRING | ffi::LUA_TNUMBER).then(|| self.bytes_at(index))
    }

    fn bytes_at(&self, index: c_int) -> &[u8] {
        let mut len = 0;
        let start = api!(lua_tolstring(self, index, &raw mut len));
        // SAFETY: Luau never moves a string, and this one is kept by its place on the stack. No caller pops it while
        // it uses the bytes.
        unsafe { std::slice::from_raw_parts(start.cast(), len) }
    }

    /// A number, or a string that is one.
    pub(crate) fn number(&self, index: c_int) -> Option<f64> {
        let mut is_number = 0;
        let number = api!(lua_tonumberx(self, index, &raw mut is_number));
        (is_number != 0).then_some(number)
    }

    pub(crate) fn boolean(&self, index: c_int) -> bool {
        api!(lua_toboolean(self, index)) != 0
    }

    pub(crate) fn light(&self, index: c_int) -> *mut c_void {
        api!(lua_tolightuserdata(self, index))
    }

    pub(crate) fn push_nil(&self) {
        api!(lua_pushnil(self));
    }

    pub(crate) fn push_boolean(&self, value: bool) {
        api!(lua_pushboolean(self, c_int::from(value)));
    }

    pub(crate) fn push_number(&self, value: f64) {
        api!(lua_pushnumber(self, value));
    }

    pub(crate) fn push_bytes(&self, bytes: &[u8]) {
        api!(lua_pushlstring_(self, bytes.as_ptr().cast(), bytes.len()));
    }

    /// Null as `cjson` has it.
    pub(crate) fn push_null(&self) {
        api!(lua_pushlightuserdatatagged(self, std::ptr::null_mut(), 0));
    }

    pub(crate) fn push_killed(&self) {
        api!(lua_pushlightuserdatatagged(self, killed_mark(), 0));
    }

    pub(crate) fn push_copy(&self, index: c_int) {
        api!(lua_pushvalue(self, index));
    }

    pub(crate) fn insert(&self, index: c_int) {
        api!(lua_insert(self, index));
    }

    /// Moves the top to `index`, in place of what is there.
    pub(crate) fn replace(&self, index: c_int) {
        api!(lua_replace(self, index));
    }

    pub(crate) fn remove(&self, index: c_int) {
        api!(lua_remove(self, index));
    }

    /// `function` under this name in messages, with `upvalues` values from the top of the stack.
    pub(crate) fn push_function(&self, function: Body, name: &'static CStr, upvalues: c_int) {
        api!(lua_pushlightuserdatatagged(self, function as *mut c_void, 0));
        self.insert(-upvalues - 1);
        api!(lua_pushcclosurek(self, trampoline, name.as_ptr(), upvalues + 1, None));
    }

    /// As [`Stack::push_function`], for one that scripts call all the time: which it is, is known when this is compiled.
    pub(crate) fn push_known<F: Known>(&self, name: &'static CStr, upvalues: c_int) {
        // In place of the function, so that upvalues have the same numbers.
        self.push_nil();
        self.insert(-upvalues - 1);
        api!(lua_pushcclosurek(self, known::<F>, name.as_ptr(), upvalues + 1, None));
    }

    /// The index of the upvalue given to [`Stack::push_function`], counted from 1.
    pub(crate) fn upvalue(number: c_int) -> c_int {
        ffi::lua_upvalueindex(number + 1)
    }

    pub(crate) fn new_table(&self, items: usize, fields: usize) {
        // A hint only: what is larger grows as it is filled.
        let (items, fields) = (items.min(1 << 20) as c_int, fields.min(1 << 20) as c_int);
        api!(lua_createtable(self, items, fields));
    }

    /// A table with one field.
    pub(crate) fn push_field_table(&self, field: &CStr, value: &[u8]) {
        self.new_table(0, 1);
        self.push_bytes(value);
        self.set_field(-2, field);
    }

    pub(crate) fn length(&self, index: c_int) -> usize {
        api!(lua_objlen(self, index))
    }

    /// The length of a table that is found to be a short array after a short look: its keys are 1, 2, 3 and so on.
    pub(crate) fn short_array(&self, index: c_int) -> Option<usize> {
        const LENGTH_MAX: c_int = 16;
        let mut position = 0;
        for length in 0..=LENGTH_MAX {
            match self.next_from(index, position) {
                Some(next) => position = next,
                None => return Some(length as usize),
            }
            let is_next = self.kind(-2) == ffi::LUA_TNUMBER && self.number(-2) == Some(f64::from(length + 1));
            self.pop(2);
            if !is_next {
                return None;
            }
        }
        None
    }

    /// Pushes the next key after a position of a table, and its value; gives the position to go on with. `None` at the end.
    pub(crate) fn next_from(&self, index: c_int, position: c_int) -> Option<c_int> {
        let next = api!(lua_rawiter(self, index, position));
        (next >= 0).then_some(next)
    }

    pub(crate) fn get_item(&self, index: c_int, item: c_int) -> c_int {
        api!(lua_rawgeti_(self, index, item))
    }

    pub(crate) fn set_item(&self, index: c_int, item: c_int) {
        api!(lua_rawseti_(self, index, item));
    }

    pub(crate) fn get_field(&self, index: c_int, field: &CStr) -> c_int {
        api!(lua_rawgetfield(self, index, field.as_ptr()))
    }

    pub(crate) fn set_field(&self, index: c_int, field: &CStr) {
        api!(lua_rawsetfield(self, index, field.as_ptr()));
    }

    /// Sets `table[key] = value`, taking both from the top of the stack, without metamethods.
    pub(crate) fn set_pair(&self, index: c_int) {
        api!(lua_rawset(self, index));
    }

    /// Replaces the key on the top by the next pair; pops it at the end.
    pub(crate) fn next_pair(&self, index: c_int) -> bool {
        api!(lua_next(self, index)) != 0
    }

    /// The largest key of the table on the top, and how many keys it has, if all are positive whole numbers. `tick` is called for each.
    pub(crate) fn array_keys(&self, mut tick: impl FnMut() -> Result<(), Fail>) -> Result<Option<(f64, usize)>, Fail> {
        let (mut max, mut count) = (0.0_f64, 0);
        self.push_nil();
        while self.next_pair(-2) {
            self.pop(1);
            tick()?;
            let is_number = self.kind(-1) == ffi::LUA_TNUMBER;
            match self.number(-1).filter(|_| is_number) {
                Some(key) if key >= 1.0 && key.fract() == 0.0 => {
                    max = max.max(key);
                    count += 1;
                }
                _ => {
                    self.pop(1);
                    return Ok(None);
                }
            }
        }
        Ok(Some((max, count)))
    }

    pub(crate) fn get_metatable(&self, index: c_int) -> bool {
        api!(lua_getmetatable(self, index)) != 0
    }

    /// Takes the metatable from the top of the stack.
    pub(crate) fn set_metatable(&self, index: c_int) {
        api!(lua_setmetatable(self, index));
    }

    /// Takes the table on the top of another thread of the VM for this thread's globals.
    pub(crate) fn take_globals(&self, from: &Stack) {
        api!(lua_xmove(from, self.0, 1));
        self.replace(ffi::LUA_GLOBALSINDEX);
    }

    /// Promises that a table, whose contents no longer change, may be looked up once for what is compiled with it as globals.
    pub(crate) fn set_safe(&self, index: c_int) {
        api!(lua_setsafeenv(self, index, 1));
    }

    /// Keeps the value on the top, which stays there, until [`Stack::release_reference`].
    pub(crate) fn make_reference(&self) -> c_int {
        api!(lua_ref(self, -1))
    }

    /// Pushes what a reference keeps.
    pub(crate) fn push_reference(&self, reference: c_int) {
        api!(lua_rawgeti_(self, ffi::LUA_REGISTRYINDEX, reference));
    }

    /// Lets go of what a reference keeps. Once for each.
    pub(crate) fn release_reference(&self, reference: c_int) {
        api!(lua_unref(self, reference));
    }

    pub(crate) fn set_readonly(&self, index: c_int) {
        api!(lua_setreadonly(self, index, 1));
    }

    /// Calls the function below `arguments` arguments. It cannot yield.
    pub(crate) fn call(&self, arguments: c_int, results: c_int) {
        api!(lua_call(self, arguments, results));
    }

    pub(crate) fn check_bytes(&self, index: c_int, function: &str) -> Result<&[u8], Fail> {
        self.bytes(index)
            .ok_or_else(|| self.wrong_type(index, function, "string"))
    }

    pub(crate) fn check_number(&self, index: c_int, function: &str) -> Result<f64, Fail> {
        self.number(index)
            .ok_or_else(|| self.wrong_type(index, function, "number"))
    }

    /// `default` for what is absent or nil.
    pub(crate) fn number_or(&self, index: c_int, function: &str, default: f64) -> Result<f64, Fail> {
        match self.kind(index) {
            ffi::LUA_TNONE | ffi::LUA_TNIL => Ok(default),
            _ => self.check_number(index, function),
        }
    }

    fn wrong_type(&self, index: c_int, function: &str, expected: &str) -> Fail {
        let found = self.kind_name(index);
        Fail::argument(index, function, &format!("{expected} expected, got {found}"))
    }
}

/// A pointer that no script can make.
fn killed_mark() -> *mut c_void {
    static MARK: u8 = 0;
    (&raw const MARK).cast_mut().cast()
}

/// Calls the [`Body`] in the first upvalue.
unsafe extern "C-unwind" fn trampoline(state: State) -> c_int {
    // SAFETY: Luau calls with the running thread, which lives until this returns; the engine set the user data.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: `push_function` alone uses the trampoline and puts a Body there.
    let body: Body = unsafe { std::mem::transmute(stack.light(ffi::lua_upvalueindex(1))) };
    // SAFETY: as above.
    unsafe { enter(state, body) }
}

/// A [`Body`] as a type.
pub(crate) trait Known {
    fn call(stack: &Stack) -> Result<c_int, Fail>;
}

/// Calls a known function.
unsafe extern "C-unwind" fn known<F: Known>(state: State) -> c_int {
    // SAFETY: Luau calls with the running thread, which lives until this returns; the engine set the user data.
    unsafe { enter(state, F::call) }
}

/// Calls a body.
///
/// # Safety
/// Luau calls with the running thread, which lives until this returns; its user data is a [`Shared`].
#[inline]
unsafe fn enter(state: State, body: impl FnOnce(&Stack) -> Result<c_int, Fail>) -> c_int {
    // SAFETY: the caller promises it.
    let stack = unsafe { Stack::new(state) };
    match body(&stack) {
        Ok(results) => results,
        Err(fail) => {
            fail.push(&stack);
            // SAFETY: the error value is on the top, and nothing in this frame has a destructor.
            unsafe { ffi::lua_error(state) }
        }
    }
}
