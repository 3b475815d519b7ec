//! What the integration tests share: starting a node, talking RESP to it, finding free ports.
