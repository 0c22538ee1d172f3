//! Colours for light and dark mode. Charts are drawn in the light ones; a style sheet replaces them for readers who
//! prefer dark.

use plotters::style::RGBColor;

/// A colour by its name in style sheets, by day and by night.
pub(super) struct Shade {
    name: &'static str,
    pub day: RGBColor,
    night: RGBColor,
}

const fn shade(name: &'static str, day: u32, night: u32) -> Shade {
    Shade { name, day: rgb(day), night: rgb(night) }
}

const fn rgb(hex: u32) -> RGBColor {
    RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

pub(super) const SURFACE: Shade = shade("surface", 0xffffff, 0x171a20);
pub(super) const INK: Shade = shade("ink", 0x1f2430, 0xe4e7ec);
pub(super) const MUTED: Shade = shade("muted", 0x626c7c, 0x9aa4b2);
pub(super) const GRID: Shade = shade("grid", 0xe3e7ed, 0x2c323c);
pub(super) const TRACK: Shade = shade("track", 0xf1f3f7, 0x20252d);
/// Text on any of the colours below.
pub(super) const ON_FILL: Shade = shade("on-fill", 0xfefefe, 0x0e1116);
/// Device memory, and ops.
pub(super) const DEVICE: Shade = shade("device", 0x3a72c2, 0x6a9fe8);
/// The host tier, and copies there.
pub(super) const HOST: Shade = shade("host", 0x1f9484, 0x3fbfae);
/// Dropped storages, and ops that are run again.
pub(super) const AGAIN: Shade = shade("again", 0xdd7222, 0xf29a52);
/// Copies back.
pub(super) const FETCH: Shade = shade("fetch", 0x8a57c2, 0xb48ae6);
/// The budget.
pub(super) const BUDGET: Shade = shade("budget", 0xc2304a, 0xf57a8c);

const SHADES: [Shade; 11] = [SURFACE, INK, MUTED, GRID, TRACK, ON_FILL, DEVICE, HOST, AGAIN, FETCH, BUDGET];

fn hex(colour: RGBColor) -> String {
    format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2)
}

/// The colours as variables of a page, and the rules that recolour charts at night.
pub(super) fn style_sheet() -> String {
    let variables = |colour: fn(&Shade) -> RGBColor| {
        SHADES.iter().map(|shade| format!("--{}:{};", shade.name, hex(colour(shade)))).collect::<String>()
    };
    let recoloured = SHADES.iter().map(|shade| {
        let (day, night) = (hex(shade.day), hex(shade.night));
        format!(".chart [fill=\"{day}\"]{{fill:{night}}}.chart [stroke=\"{day}\"]{{stroke:{night}}}\n")
    });
    format!(
        ":root{{color-scheme:light dark;{}}}\n.chart text{{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\
         \"Liberation Sans\",sans-serif}}\n@media (prefers-color-scheme:dark){{:root{{{}}}\n{}}}\n",
        variables(|shade| shade.day),
        variables(|shade| shade.night),
        recoloured.collect::<String>()
    )
}
