//! Enums whose variants have a name each, as kernels do.

macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }
        impl $name {
            /// Every kind, in table order.
            pub const ALL: &[$name] = &[$($name::$variant,)*];
            /// Its part of a kernel's name.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}
pub(super) use named;
