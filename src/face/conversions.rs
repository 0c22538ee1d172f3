/// The conversions of types that are the same in every version of Burn that has a face. A face adds those of devices, tensors and
/// options. They are traits of the face, since neither Burn's types nor this crate's are its own.
#[doc(hidden)]
#[macro_export]
macro_rules! face_conversions {
    () => {
        /// A value of Burn's as this crate takes it.
        pub(crate) trait IntoCore {
            type Core;

            #[track_caller]
            fn into_core(self) -> Self::Core;
        }

        /// The reverse.
        pub(crate) trait FromCore<T> {
            #[track_caller]
            fn from_core(value: T) -> Self;
        }

        macro_rules! same {
            ($type:ty) => {
                impl IntoCore for $type {
                    type Core = Self;

                    fn into_core(self) -> Self {
                        self
                    }
                }
            };
        }
        same!(bool);
        same!(f64);
        same!(u64);
        same!(usize);
        same!(&[usize]);
        same!([usize; 2]);
        same!([usize; 3]);
        same!(std::ops::Range<i64>);

        impl<T: IntoCore> IntoCore for Option<T> {
            type Core = Option<T::Core>;

            fn into_core(self) -> Self::Core {
                self.map(IntoCore::into_core)
            }
        }

        impl<T: IntoCore> IntoCore for Vec<T> {
            type Core = Vec<T::Core>;

            fn into_core(self) -> Self::Core {
                self.into_iter().map(IntoCore::into_core).collect()
            }
        }

        impl IntoCore for Shape {
            type Core = $crate::op::Shape;

            fn into_core(self) -> Self::Core {
                $crate::op::Shape::new(&self)
            }
        }

        impl IntoCore for &[Slice] {
            type Core = $crate::functions::arguments::Slices;

            fn into_core(self) -> Self::Core {
                let core = |slice: &Slice| $crate::functions::arguments::Slice {
                    start: slice.start,
                    end: slice.end,
                    step: slice.step,
                };
                self.iter().map(core).collect()
            }
        }

        impl IntoCore for Scalar {
            type Core = $crate::functions::arguments::Number;

            fn into_core(self) -> Self::Core {
                use $crate::functions::arguments::Number;
                match self {
                    Scalar::Float(float) => Number::Float(float),
                    Scalar::Int(integer) => Number::Int(integer),
                    Scalar::UInt(integer) => Number::UInt(integer),
                    Scalar::Bool(bit) => Number::Bool(bit),
                }
            }
        }

        impl IntoCore for Distribution {
            type Core = $crate::functions::arguments::Random;

            fn into_core(self) -> Self::Core {
                use $crate::functions::arguments::Random;
                match self {
                    Distribution::Default => Random::Usual,
                    Distribution::Uniform(low, high) => Random::Uniform(low, high),
                    Distribution::Bernoulli(probability) => Random::Bernoulli(probability),
                    Distribution::Normal(mean, deviation) => Random::Normal(mean, deviation),
                }
            }
        }

        impl IntoCore for IndexingUpdateOp {
            type Core = $crate::op::Update;

            fn into_core(self) -> Self::Core {
                use $crate::op::Update;
                match self {
                    IndexingUpdateOp::Assign => Update::Assign,
                    IndexingUpdateOp::Add => Update::Add,
                    IndexingUpdateOp::Mul => Update::Mul,
                    IndexingUpdateOp::Min => Update::Min,
                    IndexingUpdateOp::Max => Update::Max,
                }
            }
        }

        impl IntoCore for DType {
            type Core = $crate::op::Dtype;

            fn into_core(self) -> Self::Core {
                use $crate::op::Dtype;
                match self {
                    DType::F64 => Dtype::F64,
                    // A float of at least 16 bits, computed in 32.
                    DType::F32 | DType::Flex32 => Dtype::F32,
                    DType::F16 => Dtype::F16,
                    DType::BF16 => Dtype::BF16,
                    DType::I64 => Dtype::I64,
                    DType::I32 => Dtype::I32,
                    DType::I16 => Dtype::I16,
                    DType::I8 => Dtype::I8,
                    DType::U64 => Dtype::U64,
                    DType::U32 => Dtype::U32,
                    DType::U16 => Dtype::U16,
                    DType::U8 => Dtype::U8,
                    DType::Bool(BoolStore::Native) => Dtype::Bool,
                    DType::Bool(BoolStore::U8) => Dtype::Bool8,
                    DType::Bool(BoolStore::U32) => Dtype::Bool32,
                    DType::QFloat(_) => $crate::functions::fail(format_args!(
                        "burn-overcommit: {self:?} is no element type of a plain tensor; quantize for it"
                    )),
                }
            }
        }

        impl FromCore<$crate::op::Dtype> for DType {
            fn from_core(dtype: $crate::op::Dtype) -> Self {
                use $crate::op::Dtype;
                match dtype {
                    Dtype::F64 => DType::F64,
                    Dtype::F32 => DType::F32,
                    Dtype::F16 => DType::F16,
                    Dtype::BF16 => DType::BF16,
                    Dtype::I64 => DType::I64,
                    Dtype::I32 => DType::I32,
                    Dtype::I16 => DType::I16,
                    Dtype::I8 => DType::I8,
                    Dtype::U64 => DType::U64,
                    Dtype::U32 => DType::U32,
                    Dtype::U16 => DType::U16,
                    Dtype::U8 => DType::U8,
                    Dtype::Bool => DType::Bool(BoolStore::Native),
                    Dtype::Bool8 => DType::Bool(BoolStore::U8),
                    Dtype::Bool32 => DType::Bool(BoolStore::U32),
                }
            }
        }

        macro_rules! dtype {
            ($type:ty) => {
                impl IntoCore for $type {
                    type Core = $crate::op::Dtype;

                    fn into_core(self) -> Self::Core {
                        DType::from(self).into_core()
                    }
                }
            };
        }
        dtype!(FloatDType);
        dtype!(IntDType);
        dtype!(BoolStore);

        impl<const N: usize> IntoCore for ConvTransposeOptions<N> {
            type Core = $crate::functions::arguments::Transposed;

            fn into_core(self) -> Self::Core {
                use $crate::functions::arguments::{Transposed, spatial};
                let conv = $crate::op::Conv {
                    stride: spatial(self.stride, 1),
                    padding: spatial(self.padding, 0),
                    dilation: spatial(self.dilation, 1),
                    groups: self.groups,
                };
                Transposed { conv, padding_out: spatial(self.padding_out, 0) }
            }
        }

        impl IntoCore for UnfoldOptions {
            type Core = $crate::functions::arguments::Windows;

            fn into_core(self) -> Self::Core {
                let UnfoldOptions { stride, padding, dilation } = self;
                $crate::functions::arguments::Windows { stride, padding, dilation }
            }
        }

        impl IntoCore for DeformConvOptions<2> {
            type Core = $crate::functions::arguments::Deforming;

            fn into_core(self) -> Self::Core {
                let DeformConvOptions { stride, padding, dilation, weight_groups, offset_groups } = self;
                let windows = $crate::functions::arguments::Windows { stride, padding, dilation };
                $crate::functions::arguments::Deforming { windows, weight_groups, offset_groups }
            }
        }

        impl IntoCore for GridSampleOptions {
            type Core = $crate::op::GridSample;

            fn into_core(self) -> Self::Core {
                use $crate::op::GridPadding;
                let nearest = match self.mode {
                    InterpolateMode::Nearest => true,
                    InterpolateMode::Bilinear => false,
                    mode => $crate::functions::fail(format_args!(
                        "burn-overcommit: grid_sample_2d has no {mode:?}, as in Burn's other backends"
                    )),
                };
                let padding = match self.padding_mode {
                    GridSamplePaddingMode::Zeros => GridPadding::Zeros,
                    GridSamplePaddingMode::Border => GridPadding::Border,
                    GridSamplePaddingMode::Reflection => GridPadding::Reflection,
                };
                $crate::op::GridSample { nearest, padding, align_corners: self.align_corners }
            }
        }

        impl FromCore<$crate::runtime::Tensor> for Tensor {
            fn from_core(tensor: $crate::runtime::Tensor) -> Self {
                tensor.into()
            }
        }

        type CorePair = ($crate::runtime::Tensor, $crate::runtime::Tensor);

        impl FromCore<CorePair> for (Tensor, Tensor) {
            fn from_core((first, second): CorePair) -> Self {
                (first.into(), second.into())
            }
        }

        impl<B> FromCore<[$crate::runtime::Tensor; 2]> for MaxPool2dWithIndices<B>
        where
            B: Backend + BackendTypes<FloatTensorPrimitive = Tensor, IntTensorPrimitive = Tensor>,
        {
            fn from_core([output, indices]: [$crate::runtime::Tensor; 2]) -> Self {
                MaxPool2dWithIndices::new(output.into(), indices.into())
            }
        }

        impl<B> FromCore<$crate::runtime::Tensor> for MaxPool2dBackward<B>
        where
            B: Backend + BackendTypes<FloatTensorPrimitive = Tensor>,
        {
            fn from_core(of_x: $crate::runtime::Tensor) -> Self {
                MaxPool2dBackward::new(of_x.into())
            }
        }

        impl<B> FromCore<$crate::functions::vision::DeformedGradients> for DeformConv2dBackward<B>
        where
            B: Backend + BackendTypes<FloatTensorPrimitive = Tensor>,
        {
            fn from_core(of: $crate::functions::vision::DeformedGradients) -> Self {
                let (mask, bias) = (of.mask.map(Into::into), of.bias.map(Into::into));
                DeformConv2dBackward::new(of.x.into(), of.offset.into(), of.weight.into(), mask, bias)
            }
        }

        /// Downloads a tensor, row-major.
        pub(crate) fn into_data(tensor: Tensor) -> Result<TensorData, ExecutionError> {
            let tensor = tensor.into_core();
            let (sizes, dtype) = (tensor.shape().dims().to_vec(), DType::from_core(tensor.dtype()));
            let bytes = $crate::runtime::read(tensor).map_err(execution_error)?;
            Ok(TensorData::from_bytes_vec(bytes, sizes, dtype))
        }

        pub(crate) fn execution_error(error: impl std::fmt::Display) -> ExecutionError {
            ExecutionError::WithContext { reason: error.to_string() }
        }
    };
}
