//! Placeholder request and response types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::function::{Class, Cost, Function};

macro_rules! placeholder {
    ($($name:ident $request:ident $response:ident $id:literal $example:tt),*) => { $(
        #[derive(Debug)]
        pub struct $name;
        #[derive(Debug, Deserialize, JsonSchema)]
        #[schemars(extend("examples" = [$example]))]
        pub struct $request {
            #[serde(default)]
            pub path: Option<String>,
        }
        #[derive(Debug, Serialize, JsonSchema)]
        pub struct $response {
            pub path: Option<String>,
        }
        impl Function for $name {
            const NAME: &'static str = $id;
            const CLASS: Class = Class::Read;
            const COST: Cost = Cost::Short;
            const DESCRIPTION: &'static str = "placeholder";
            type Request = $request;
            type Response = $response;
        }
    )* };
}

placeholder!(
    Info InfoRequest InfoResponse "coder::info" {},
    ReadFile ReadFileRequest ReadFileResponse "coder::read-file" { "path": "src/main.rs" },
    ListFolder ListFolderRequest ListFolderResponse "coder::list-folder" { "path": "src" }
);
