//! Tables of text with aligned columns.

/// The lines of a table: a head, and rows with as many cells. Columns of numbers are aligned to the right.
pub fn lines<const COLUMNS: usize>(
    head: [&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let is_number = |text: &String| text.parse::<u64>().is_ok() || text == "-";
    let number = |column: usize| rows.iter().all(|row| is_number(&row[column]));
    let columns: [(usize, bool); COLUMNS] = std::array::from_fn(|c| (width(c), number(c)));
    let line = |cells: [&str; COLUMNS]| {
        let cells = cells.iter().zip(columns).map(|(cell, (width, right))| {
            if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    std::iter::once(line(head)).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["bf16", "9", "x"], ["f16 long", "120", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(
            lines(["type", "kernels", "what"], &rows),
            ["type      kernels  what", "bf16            9  x", "f16 long      120"]
        );
        assert_eq!(lines(["a", "b"], &[]), ["a  b"]);
    }
}
