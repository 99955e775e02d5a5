// RoPE in float32 and bfloat16 for `posenc check --raw`: rustc --edition 2021 -O rope.rs && posenc check --exec ./rope --raw
// Arguments: rotation q=bfloat16:2,4,17,64 k=bfloat16:2,2,17,64 positions=int64:17 (or 2,17); arrays come by the
// standard input, one after the other, and go to the standard output.
use std::io::{Read, Write};

struct Array {
    dtype: String,
    shape: Vec<usize>,
}

fn described(argument: &str) -> Array {
    let (dtype, sizes) = argument.split_once('=').unwrap().1.split_once(':').unwrap();
    Array { dtype: dtype.to_string(), shape: sizes.split(',').map(|size| size.parse().unwrap()).collect() }
}

fn to_bfloat16(number: f32) -> [u8; 2] {
    let bits = number.to_bits(); // to nearest even; the numbers are finite
    ((bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16).to_le_bytes()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments[0] != "rotation" {
        eprintln!("only rotation is here");
        std::process::exit(2);
    }
    let arrays: Vec<Array> = arguments[1..].iter().map(|each| described(each)).collect();
    let size = match arrays[0].dtype.as_str() {
        "float32" => 4,
        "bfloat16" => 2,
        other => {
            eprintln!("{other} is not here");
            std::process::exit(2);
        }
    };
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).unwrap();
    let counts: Vec<usize> = arrays.iter().map(|each| each.shape.iter().product()).collect();
    let (tokens, rest) = bytes.split_at((counts[0] + counts[1]) * size);
    let positions: Vec<i64> = rest.chunks(8).map(|each| i64::from_le_bytes(each.try_into().unwrap())).collect();
    let mut numbers: Vec<f32> = tokens
        .chunks(size)
        .map(|each| match size {
            4 => f32::from_le_bytes(each.try_into().unwrap()),
            _ => f32::from_bits((u16::from_le_bytes(each.try_into().unwrap()) as u32) << 16),
        })
        .collect();
    let (q, k) = numbers.split_at_mut(counts[0]);
    for (x, array) in [(q, &arrays[0]), (k, &arrays[1])] {
        let (heads, length, width) = (array.shape[1], array.shape[2], array.shape[3]);
        for (row, channels) in x.chunks_mut(width).enumerate() {
            let batch = if arrays[2].shape.len() > 1 { row / (heads * length) } else { 0 };
            let position = positions[batch * length + row % length] as f64;
            let (firsts, seconds) = channels.split_at_mut(width / 2);
            for (pair, (first, second)) in firsts.iter_mut().zip(seconds).enumerate() {
                let angle = position * 10000f64.powf(-2.0 * pair as f64 / width as f64); // put your own here
                let (cos, sin) = (angle.cos() as f32, angle.sin() as f32);
                (*first, *second) = (*first * cos - *second * sin, *second * cos + *first * sin);
            }
        }
    }
    let mut out = Vec::with_capacity(numbers.len() * size);
    for number in numbers {
        match size {
            4 => out.extend(number.to_le_bytes()),
            _ => out.extend(to_bfloat16(number)),
        }
    }
    std::io::stdout().write_all(&out).unwrap();
}
