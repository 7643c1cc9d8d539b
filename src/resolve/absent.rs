//! A system whose kernel does not walk for us.

use super::Resolver;

pub fn kernel() -> Result<Box<dyn Resolver + Send + Sync>, String> {
    Err("only Linux has openat2".into())
}
