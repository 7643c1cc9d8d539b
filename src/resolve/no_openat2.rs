//! A system whose kernel_resolver does not walk for us.

use super::Resolver;

pub fn kernel_resolver() -> Result<Box<dyn Resolver + Send + Sync>, String> {
    Err("only Linux has openat2".into())
}
