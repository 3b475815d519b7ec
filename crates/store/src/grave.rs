//! Values that are no longer in the store but too large to be freed at once.

use crate::blocks::Content;
use crate::store::Store;
use tollgate_values::Value;

/// Elements up to which a value is freed where it is removed.
const AT_ONCE: usize = 64;

/// Where large values wait to be freed, some elements at a time.
#[derive(Debug, Default)]
pub(crate) struct Grave {
    values: Vec<Value>,
}

impl Grave {
    /// Frees a block, or keeps it for later.
    pub(crate) fn bury(&mut self, block: Option<Content>) {
        if let Some(Content::Value(stored)) = block {
            self.bury_value(stored.value);
        }
    }

    pub(crate) fn bury_value(&mut self, value: Value) {
        if value.elements() > AT_ONCE {
            self.values.push(value);
        }
    }

    pub(crate) fn append(&mut self, mut other: Grave) {
        self.values.append(&mut other.values);
    }

    /// Frees about so many elements; `true` once nothing is left.
    pub(crate) fn drop_some(&mut self, elements: usize) -> bool {
        if elements > 0
            && let Some(value) = self.values.last_mut()
            && value.drop_some(elements)
        {
            self.values.pop();
        }
        self.values.is_empty()
    }
}

impl Store {
    /// Frees a value that was taken out of the store, now or, if it is large, later.
    pub fn bury(&mut self, value: Value) {
        self.grave.bury_value(value);
    }

    /// Frees about so many elements of values that were too large to be freed when they were removed; `true` once nothing is left.
    pub fn drop_buried(&mut self, elements: usize) -> bool {
        self.grave.drop_some(elements)
    }
}
