//! Arithmetic on elements.

use crate::case::{EACH, Fill::*};

cases! {
    [float int] add(x: own(Any, EACH), y: own(Any, EACH));
    [float int] sub(x: own(Any, EACH), y: own(Any, EACH));
    [float int] mul(x: own(Any, EACH), y: own(Any, EACH));
    [float int] div(x: own(Any, EACH), y: own(Nonzero, EACH));
    [float int] remainder(x: own(Any, EACH), y: own(Nonzero, EACH));
    [float int] add: broadcast(x: own(Any, [3, 1, 5], [512, 1, 1024]), y: own(Any, [1, 4, 5], [1, 2, 1024]));
    [float int] mul: broadcast(x: own(Any, [4, 5], [1024, 1024]), y: own(Any, [4, 1], [1024, 1]));

    [float] add_scalar(x: own(Any, EACH)) => add_scalar(x, 1.5.into());
    [float] sub_scalar(x: own(Any, EACH)) => sub_scalar(x, 1.5.into());
    [float] mul_scalar(x: own(Any, EACH)) => mul_scalar(x, 1.5.into());
    [float] div_scalar(x: own(Any, EACH)) => div_scalar(x, 1.5.into());
    [float] remainder_scalar(x: own(Any, EACH)) => remainder_scalar(x, 0.75.into());
    [int] add_scalar(x: own(Any, EACH)) => add_scalar(x, 3.into());
    [int] sub_scalar(x: own(Any, EACH)) => sub_scalar(x, 3.into());
    [int] mul_scalar(x: own(Any, EACH)) => mul_scalar(x, 3.into());
    [int] div_scalar(x: own(Any, EACH)) => div_scalar(x, 3.into());
    [int] remainder_scalar(x: own(Any, EACH)) => remainder_scalar(x, 3.into());

    [float int] neg(x: own(Any, EACH));
    [float int] abs(x: own(Any, EACH));
    [float int] sign(x: own(Any, EACH));
    [float] clamp(x: own(Any, EACH)) => clamp(x, (-0.7).into(), 0.9.into());
    [float] clamp_min(x: own(Any, EACH)) => clamp_min(x, (-0.7).into());
    [float] clamp_max(x: own(Any, EACH)) => clamp_max(x, 0.9.into());
    [int] clamp(x: own(Any, EACH)) => clamp(x, 2.into(), 7.into());
    [int] clamp_min(x: own(Any, EACH)) => clamp_min(x, 2.into());
    [int] clamp_max(x: own(Any, EACH)) => clamp_max(x, 7.into());

    [float] recip(x: own(Nonzero, EACH));
    [float] exp(x: own(Any, EACH));
    [float] log(x: own(Positive, EACH));
    [float] log1p(x: own(Unit, EACH));
    [float] sqrt(x: own(Positive, EACH));
    [float] sin(x: own(Any, EACH));
    [float] cos(x: own(Any, EACH));
    [float] tan(x: own(Unit, EACH));
    [float] sin: wide(x: own(Wide, EACH));
    [float] cos: wide(x: own(Wide, EACH));
    [float] sinh(x: own(Any, EACH));
    [float] cosh(x: own(Any, EACH));
    [float] tanh(x: own(Any, EACH));
    [float] asin(x: own(Unit, EACH));
    [float] acos(x: own(Unit, EACH));
    [float] atan(x: own(Any, EACH));
    [float] asinh(x: own(Any, EACH));
    [float] acosh(x: own(AboveOne, EACH));
    [float] atanh(x: own(Unit, EACH));
    [float] erf(x: own(Any, EACH));
    [float] floor(x: own(Wide, EACH));
    [float] ceil(x: own(Wide, EACH));
    [float] round(x: own(Wide, EACH));
    [float] trunc(x: own(Wide, EACH));
    [float] atan2(x: own(Any, EACH), y: own(Any, EACH));

    [float] powf(x: own(Positive, EACH), y: own(Any, EACH));
    [float] powf_scalar(x: own(Positive, EACH)) => powf_scalar(x, 1.7.into());
    [float] powf_scalar: half(x: own(Positive, EACH)) => powf_scalar(x, 0.5.into());
    [float] powi(x: own(Any, EACH), y: int(Positive, EACH));
    [float] powi_scalar: two(x: own(Any, EACH)) => powi_scalar(x, 2.into());
    [float] powi_scalar: three(x: own(Any, EACH)) => powi_scalar(x, 3.into());
    [float] powi_scalar: five(x: own(Any, EACH)) => powi_scalar(x, 5.into());
    [float] powi_scalar: one(x: own(Any, EACH)) => powi_scalar(x, 1.into());
    [float] powi_scalar: zero(x: own(Any, EACH)) => powi_scalar(x, 0.into());
    [float] powi_scalar: inverse(x: own(Positive, EACH)) => powi_scalar(x, (-1).into());
    [float] powi_scalar: inverse_square(x: own(Positive, EACH)) => powi_scalar(x, (-2).into());
    [float] powi_scalar: inverse_cube(x: own(Positive, EACH)) => powi_scalar(x, (-3).into());
    [int] powi(x: own(Any, EACH), y: own(Below(4), EACH));
    [int] powi_scalar: two(x: own(Any, EACH)) => powi_scalar(x, 2.into());
    [int] powi_scalar: five(x: own(Any, EACH)) => powi_scalar(x, 5.into());
}
