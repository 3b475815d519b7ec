//! The policy under test: a Lua file, and a bucket that it decides.

use std::collections::HashMap;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::{Answer, Limit};

/// One policy file.
pub struct Policy {
    lua: Lua,
    file: Table,
    check: Function,
    full_at: Function,
    scratch: Option<mlua::Buffer>,
    limits: std::cell::RefCell<HashMap<Limit, Table>>,
    fields: usize,
}

pub type State = Vec<f64>;

impl Policy {
    pub fn builtin(name: &str) -> Self {
        let lua = Lua::new();
        lua.enable_jit(true);
        let path = format!("/work/main/lua/{name}.lua");
        let text = std::fs::read_to_string(path).unwrap();
        let file: Table = lua
            .load(text)
            .set_name(format!("@{name}.lua"))
            .eval()
            .unwrap();
        let scratch = file
            .get::<String>("fields")
            .is_ok()
            .then(|| lua.create_buffer_with_capacity(200_000).unwrap());
        let fields = file.get::<Table>("fields").map_or(0, |f| f.raw_len());
        Self {
            check: file.get("check").unwrap(),
            full_at: file.get("full_at").unwrap(),
            file,
            scratch,
            limits: HashMap::new().into(),
            lua,
            fields,
        }
    }

    fn limit(&self, l: &Limit) -> Table {
        if let Some(t) = self.limits.borrow().get(l) {
            return t.clone();
        }
        let t = self.lua.create_table().unwrap();
        let (mut a, mut b) = (l.limit, l.window_us);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        t.set("limit", l.limit).unwrap();
        t.set("window", l.window_us).unwrap();
        t.set("burst", l.burst).unwrap();
        t.set("num", l.limit / a).unwrap();
        t.set("den", l.window_us / a).unwrap();
        t.set_readonly(true);
        self.limits.borrow_mut().insert(*l, t.clone());
        t
    }
    fn args(&self, mut head: Vec<Value>, state: &State) -> MultiValue {
        if let Some(b) = &self.scratch {
            let bytes: Vec<u8> = state.iter().map(|&b| b as u8).collect();
            b.write_bytes(0, &bytes);
            head.push(Value::Buffer(b.clone()));
            head.push(Value::Number(bytes.len() as f64));
        } else {
            for i in 0..self.fields {
                head.push(state.get(i).map_or(Value::Nil, |&n| Value::Number(n)));
            }
        }
        MultiValue::from_vec(head)
    }
    fn result(&self, values: &[Value]) -> State {
        let number = |v: &Value| match v {
            Value::Number(n) => Some(*n),
            Value::Integer(n) => Some(*n as f64),
            Value::Nil => None,
            _ => panic!("{v:?}"),
        };
        if let Some(b) = &self.scratch {
            let n = number(&values[0]).unwrap();
            let mut bytes = vec![0; n as usize];
            std::io::Read::read_exact(&mut b.clone().cursor(), &mut bytes).unwrap();
            bytes.into_iter().map(f64::from).collect()
        } else {
            values.iter().map_while(number).collect()
        }
    }
    pub fn check(&self, l: &Limit, now: u64, cost: u64, state: &mut State) -> Answer {
        let t = Value::Table(self.limit(l));
        let args = self.args(
            vec![
                t.clone(),
                Value::Number(now as f64),
                Value::Number(cost as f64),
            ],
            state,
        );
        let out: MultiValue = self.check.call(args).unwrap();
        let out = out.into_vec();
        let int = |v: &Value| match v {
            Value::Number(n) => {
                assert!(n.fract() == 0.0);
                *n as i64
            }
            Value::Integer(n) => *n,
            _ => panic!("{v:?}"),
        };
        let next = self.result(&out[3..]);
        if out[0] != Value::Boolean(true) {
            assert_eq!(*state, next, "a denial changes nothing");
        }
        *state = next;
        Answer {
            allowed: out[0] == Value::Boolean(true),
            remaining: int(&out[1]) as u64,
            retry_after_us: int(&out[2]),
            full_at_us: self.full_at(l, state).max(now),
        }
    }
    pub fn full_at(&self, l: &Limit, state: &State) -> u64 {
        let n: f64 = self
            .full_at
            .call(self.args(vec![Value::Table(self.limit(l))], state))
            .unwrap();
        assert!(n.fract() == 0.0 && n >= 0.0);
        n as u64
    }
    pub fn change(&self, name: &str, l: &Limit, now: u64, amount: u64, state: &mut State) {
        let f: Function = self.file.get(name).unwrap();
        let args = self.args(
            vec![
                Value::Table(self.limit(l)),
                Value::Number(now as f64),
                Value::Number(amount as f64),
            ],
            state,
        );
        let out: MultiValue = f.call(args).unwrap();
        *state = self.result(&out.into_vec());
    }
    pub fn resize(&self, old: &Limit, new: &Limit, now: u64, state: &mut State) {
        let f: Function = self.file.get("resize").unwrap();
        let args = self.args(
            vec![
                Value::Table(self.limit(old)),
                Value::Table(self.limit(new)),
                Value::Number(now as f64),
            ],
            state,
        );
        let out: MultiValue = f.call(args).unwrap();
        *state = self.result(&out.into_vec());
    }
}
