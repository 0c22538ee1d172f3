/// What a face has whose Burn knows a backend by its devices: a device and a tensor of its own, and their conversions. It is used
/// where [`face_conversions`](crate::face_conversions) is.
#[doc(hidden)]
#[macro_export]
macro_rules! face_newer_types {
    () => {
        /// A tensor, or an upload that memory was too small for. Burn uploads while it runs a tensor's first op, with locks held and the
        /// op's other inputs taken, so that an upload must not panic; the op does.
        #[derive(Clone, Debug)]
        pub enum Tensor {
            Made($crate::runtime::Tensor),
            Refused(std::sync::Arc<$crate::functions::create::Refused>),
        }

        impl Tensor {
            #[track_caller]
            pub(crate) fn made(self) -> $crate::runtime::Tensor {
                match self {
                    Tensor::Made(tensor) => tensor,
                    Tensor::Refused(refused) => $crate::functions::fail(&refused.error),
                }
            }
        }

        impl From<$crate::runtime::Tensor> for Tensor {
            fn from(tensor: $crate::runtime::Tensor) -> Self {
                Tensor::Made(tensor)
            }
        }

        impl TensorMetadata for Tensor {
            type Device = Member;

            fn dtype(&self) -> DType {
                match self {
                    Tensor::Made(tensor) => DType::from_core(tensor.dtype()),
                    Tensor::Refused(refused) => DType::from_core(refused.dtype),
                }
            }

            fn shape(&self) -> Shape {
                match self {
                    Tensor::Made(tensor) => tensor.shape().dims().into(),
                    Tensor::Refused(refused) => refused.shape.dims().into(),
                }
            }

            fn device(&self) -> Member {
                match self {
                    Tensor::Made(tensor) => Member(tensor.device()),
                    Tensor::Refused(refused) => Member(refused.device),
                }
            }

            // Whether an op writes in place is decided when it is submitted.
            fn can_mut(&self) -> bool {
                false
            }
        }

        /// A device of this crate as Burn's backends name theirs.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Member(pub $crate::OvercommitDevice);

        impl burn_std::device::Device for Member {
            fn from_id(id: DeviceId) -> Self {
                Member($crate::OvercommitDevice::from_parts(id.type_id, id.index_id).unwrap_or_default())
            }

            fn to_id(&self) -> DeviceId {
                let (kind, index) = self.0.parts();
                DeviceId::new(kind, index)
            }
        }

        impl DeviceOps for Member {
            fn defaults(&self) -> DeviceSettings {
                // One integer per byte: nothing here packs several.
                let scheme = QuantScheme::default().with_store(QuantStore::Native);
                let quantization = QuantConfig::new(scheme, Default::default());
                DeviceSettings::new(DType::F32, DType::I32, DType::Bool(BoolStore::Native), quantization)
            }
        }

        impl IntoCore for Tensor {
            type Core = $crate::runtime::Tensor;

            fn into_core(self) -> Self::Core {
                self.made()
            }
        }

        impl<'a> IntoCore for &'a Member {
            type Core = &'a $crate::OvercommitDevice;

            fn into_core(self) -> Self::Core {
                &self.0
            }
        }

        impl IntoCore for TensorData {
            type Core = $crate::functions::create::Data<Bytes>;

            fn into_core(self) -> Self::Core {
                let (dtype, shape) = (self.dtype().into_core(), self.shape().clone().into_core());
                $crate::functions::create::Data { bytes: self.into_bytes(), dtype, shape }
            }
        }

        type Uploaded = Result<$crate::runtime::Tensor, std::sync::Arc<$crate::functions::create::Refused>>;

        /// What was uploaded, or the upload that was refused: see [`Tensor`].
        impl FromCore<Uploaded> for Tensor {
            fn from_core(uploaded: Uploaded) -> Self {
                uploaded.map_or_else(Tensor::Refused, Tensor::Made)
            }
        }

        impl<const N: usize> IntoCore for ConvOptions<N> {
            type Core = $crate::functions::arguments::Convolution;

            fn into_core(self) -> Self::Core {
                use $crate::functions::arguments::spatial;

                // Zeros that are the same on both sides are the convolution's own; a copy of the image has the others.
                let even = self.padding.iter().all(|(before, after)| before == after);
                let own = self.padding.map(|(before, _)| if even { before } else { 0 });
                let copied = self.padding.map(|(before, after)| if even { [0; 2] } else { [before, after] });
                let conv = $crate::op::Conv {
                    stride: spatial(self.stride, 1),
                    padding: spatial(own, 0),
                    dilation: spatial(self.dilation, 1),
                    groups: self.groups,
                };
                $crate::functions::arguments::Convolution { conv, border: spatial(copied, [0; 2]) }
            }
        }
    };
}

/// The traits of such a face that are neither of tensors of one kind nor of modules; the face says what else its `DistributedOps` has.
#[doc(hidden)]
#[macro_export]
macro_rules! face_newer_backend {
    ($($distributed:tt)*) => {
        impl BackendTypes for Overcommit {
            type Device = Member;
            type FloatTensorPrimitive = Tensor;
            type IntTensorPrimitive = Tensor;
            type BoolTensorPrimitive = Tensor;
            type QuantizedTensorPrimitive = Quantized;
            type GraphPrimitive = GraphUnsupported;
        }

        impl BackendIr for Overcommit {
            $crate::face_ir_ops!();
        }

        impl Backend for Overcommit {
            fn name(device: &Member) -> String {
                format!("overcommit<{}>", device.0)
            }

            #[track_caller]
            fn seed(device: &Member, seed: u64) {
                $crate::functions::ok($crate::runtime::seed(&device.0, seed));
            }

            fn sync(device: &Member) -> Result<(), ExecutionError> {
                $crate::runtime::sync(&device.0).map_err(execution_error)
            }

            fn flush(_device: &Member) -> Result<(), ExecutionError> {
                Ok(())
            }

            #[track_caller]
            fn memory_cleanup(device: &Member) {
                $crate::functions::ok($crate::runtime::cleanup(&device.0));
            }

            fn device_count(type_id: u16) -> usize {
                $crate::OvercommitDevice::count(type_id)
            }

            fn dtype_usage(_device: &Member, dtype: DType) -> DTypeUsageSet {
                match dtype {
                    DType::QFloat(_) => DTypeUsageSet::only(DTypeUsage::Storage),
                    _ => DTypeUsage::general(),
                }
            }
        }

        // Burn reads the tensors one after another.
        impl TransactionOps<Self> for Overcommit {}

        // As in the face for Burn 0.21.
        impl DistributedOps<Self> for Overcommit {
            fn start_communication_server(devices: &[Member], config: DistributedConfig) {
                let devices: Vec<$crate::OvercommitDevice> = devices.iter().map(|device| device.0).collect();
                $crate::runtime::begin_training(&devices, reduction(config.all_reduce_op));
            }

            fn close_communication_server(_device: &Member) {
                $crate::runtime::end_training();
            }

            // Gradients are matched as they come.
            fn register_sync_parameters(_device: &Member, _params: Vec<DistributedParams>) {}

            #[track_caller]
            fn submit_gradient_sync(tensor: TensorRef<Self>, params: DistributedParams) {
                // SAFETY: Burn hands over a tensor of its gradients that nothing else uses until the backward pass has ended, in the
                // thread of that pass.
                let gradient = unsafe { &mut *tensor.0 };
                let mut reduced = gradient.clone().made();
                $crate::functions::ok($crate::runtime::reduce_gradient(&mut reduced, &params.param_id));
                *gradient = reduced.into();
            }

            #[track_caller]
            fn submit_sync_collective(device: &Member) {
                $crate::functions::ok($crate::runtime::sync_collective(&device.0));
            }

            $($distributed)*
        }

        fn reduction(op: ReduceOperation) -> $crate::runtime::Reduction {
            match op {
                ReduceOperation::Sum => $crate::runtime::Reduction::Sum,
                ReduceOperation::Mean => $crate::runtime::Reduction::Mean,
            }
        }

        impl ActivationOps<Self> for Overcommit {
            $crate::face_activation_ops!();
        }
    };
}

/// Quantized tensors: Burn's scheme, and integers and scales that this crate computes with.
#[doc(hidden)]
#[macro_export]
macro_rules! face_newer_quantized {
    () => {
        /// A tensor of integers that mean multiples of a scale.
        #[derive(Clone, Debug)]
        pub struct Quantized {
            values: $crate::runtime::Tensor,
            /// One per block, in the order of the blocks.
            scales: $crate::runtime::Tensor,
            scheme: QuantScheme,
        }

        impl TensorMetadata for Quantized {
            type Device = Member;

            fn dtype(&self) -> DType {
                DType::QFloat(self.scheme)
            }

            fn shape(&self) -> Shape {
                self.values.shape().dims().into()
            }

            fn device(&self) -> Member {
                Member(self.values.device())
            }

            fn can_mut(&self) -> bool {
                false
            }
        }

        impl IntoCore for Quantized {
            type Core = Quantized;

            fn into_core(self) -> Self::Core {
                self
            }
        }

        impl FromCore<Quantized> for Quantized {
            fn from_core(quantized: Quantized) -> Self {
                quantized
            }
        }

        impl Quantized {
            fn new([values, scales]: [$crate::runtime::Tensor; 2], scheme: &QuantScheme) -> Self {
                Quantized { values, scales, scheme: scheme.with_store(QuantStore::Native) }
            }

            #[track_caller]
            fn with_values(self, change: impl FnOnce($crate::runtime::Tensor) -> $crate::runtime::Tensor) -> Self {
                Quantized { values: change(self.values), ..self }
            }

            #[track_caller]
            fn on_device(self, device: &$crate::OvercommitDevice) -> Self {
                let [values, scales] = [self.values, self.scales].map(|tensor| create::to_device(tensor, device));
                Quantized { values, scales, ..self }
            }

            #[track_caller]
            fn dequantized(self, dtype: $crate::op::Dtype) -> $crate::runtime::Tensor {
                $crate::functions::quantized::dequantize(self.values, blocks(&self.scheme), &self.scales, dtype)
            }
        }

        #[track_caller]
        fn blocks(scheme: &QuantScheme) -> $crate::functions::quantized::Blocks {
            if matches!(scheme.value, QuantValue::E5M2 | QuantValue::E4M3 | QuantValue::E2M1) || scheme.num_levels() > 1 {
                $crate::functions::fail(format_args!(
                    "burn-overcommit: {scheme:?} is not supported; integers of 8, 4 and 2 bits with one level of scales are"
                ));
            }
            let size = scheme.block_size().map(|block| {
                if block.as_slice().iter().rev().skip(1).any(|&length| length != 1) {
                    $crate::functions::fail(format_args!(
                        "burn-overcommit: blocks of {block:?} are not supported; blocks along the last axis are"
                    ));
                }
                block.num_elements()
            });
            $crate::functions::quantized::Blocks { size, range: scheme.value.range().into() }
        }

        /// Moves elements, as integers if all have one scale, else as floats that are quantized again.
        fn moved<B>(x: Quantized, change: impl FnOnce($crate::runtime::Tensor) -> $crate::runtime::Tensor) -> Quantized
        where
            B: Backend + BackendTypes<FloatTensorPrimitive = Tensor, QuantizedTensorPrimitive = Quantized>,
        {
            if blocks(&x.scheme).size.is_none() {
                return x.with_values(change);
            }
            let scheme = x.scheme;
            B::quantize_dynamic(change(x.dequantized($crate::op::Dtype::F32)).into(), &scheme)
        }

        impl QTensorOps<Self> for Overcommit {
            $crate::face_quantized_ops!();

            #[track_caller]
            fn q_from_data(data: TensorData, device: &Member) -> Quantized {
                let DType::QFloat(scheme) = data.dtype() else {
                    $crate::functions::fail(format_args!(
                        "burn-overcommit: a quantized tensor was asked for from {:?} data",
                        data.dtype()
                    ))
                };
                blocks(&scheme);
                let shape = data.shape().clone();
                let (values, scales) =
                    QuantizedBytes { bytes: data.into_bytes(), scheme, shape: shape.clone() }.into_vec_i8();
                let count = scales.block.len();
                let values = create::int_from_data(TensorData::new(values, shape).into_core(), &device.0);
                let scales = create::float_from_data(TensorData::new(scales.block, [count]).into_core(), &device.0);
                Quantized::new([values, scales].map(|uploaded| Tensor::from_core(uploaded).made()), &scheme)
            }

            #[track_caller]
            fn quantize(
                x: Tensor,
                scheme: &QuantScheme,
                parameters: QuantizationParametersPrimitive<Self>,
            ) -> Quantized {
                Quantized::new($crate::functions::quantized::quantize(x.made(), blocks(scheme), parameters.scales.made()), scheme)
            }

            async fn q_into_data(x: Quantized) -> Result<TensorData, ExecutionError> {
                let (sizes, scheme) = (x.values.shape().dims().to_vec(), x.scheme);
                let [values, scales] = [x.values, x.scales].map(|tensor| into_data(tensor.into()));
                let values: Vec<i8> = bytemuck::pod_collect_to_vec(&values?.into_bytes());
                let scales: Vec<f32> = bytemuck::pod_collect_to_vec(&scales?.into_bytes());
                Ok(TensorData::quantized(values, sizes, scheme, &scales, None))
            }
        }
    };
}

/// The methods of tensors of numbers and of modules that all such faces have beside those of every face.
#[doc(hidden)]
#[macro_export]
macro_rules! face_newer_ops {
    ($scatter:ident, $select_assign:ident) => {
        $crate::face_forward! {
            $scatter(axis: usize, x: Tensor, indices: Tensor, value: Tensor, update: IndexingUpdateOp) -> Tensor =
                index::scatter(axis, x, indices, value, update);
            $select_assign(x: Tensor, axis: usize, indices: Tensor, value: Tensor, update: IndexingUpdateOp) -> Tensor =
                index::select_update(x, axis, indices, value, update);
        }
    };
    (modules) => {
        $crate::face_forward! {
            max_pool2d(x: Tensor, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2], ceil: bool) -> Tensor =
                inside::max_pool2d(x, max_window(kernel, stride, padding, dilation, ceil));
            max_pool2d_with_indices(x: Tensor, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2], ceil: bool, dtype: IntDType) -> MaxPool2dWithIndices<Self> =
                inside::max_pool2d_with_indices(x, max_window(kernel, stride, padding, dilation, ceil), dtype);
            max_pool2d_with_indices_backward(x: Tensor, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2], ceil: bool, grad: Tensor, indices: Tensor) -> MaxPool2dBackward<Self> =
                inside::max_pool2d_backward(x, grad, indices, max_window(kernel, stride, padding, dilation, ceil));
            adaptive_avg_pool3d(x: Tensor, size: [usize; 3]) -> Tensor = volume::adaptive_avg_pool3d(x, size);
            adaptive_avg_pool3d_backward(x: Tensor, grad: Tensor) -> Tensor = volume::adaptive_avg_pool3d_backward(x, grad);
        }
    };
}
