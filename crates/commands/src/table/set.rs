//! Sets.

use super::Spec;

pub(super) const SPECS: &[Spec] = &[];
